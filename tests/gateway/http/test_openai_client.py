"""The official OpenAI client with strict validation, and the specification's own types, as judges."""

from __future__ import annotations

import base64
import json
from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.openai_oracle import judge_response, judge_stream
from tests.support.served import Served, text_of

if TYPE_CHECKING:
    import openai

PNG = base64.b64encode(b"\x89PNG not really").decode()
WEATHER = {
    "type": "function",
    "name": "get_weather",
    "description": "The weather of a place",
    "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
}
CALL = '!call get_weather {"city": "Paris"}'


@pytest.fixture
async def client(served: Served) -> AsyncIterator[openai.AsyncOpenAI]:
    """As a user would make it, but strict; and every body it reads is judged besides."""
    import openai

    from tests.support.validator import ValidatingTransport

    validator = ValidatingTransport()
    made = openai.AsyncOpenAI(
        base_url=f"{served.base}/v1",
        api_key="unused",
        max_retries=0,
        http_client=openai.DefaultAsyncHttpxClient(transport=validator),
        _strict_response_validation=True,
    )
    async with made:
        yield made
    assert validator.judged > 0


async def test_c30_create_retrieve_delete(client: openai.AsyncOpenAI) -> None:
    from openai import NotFoundError

    made = await client.responses.create(model="demo", input="hello")
    assert made.output_text == "echo: hello"
    assert (await client.responses.retrieve(made.id)).output_text == "echo: hello"
    listed = await client.responses.input_items.list(made.id)
    assert [item.type for item in listed.data] == ["message"]
    await client.responses.delete(made.id)
    with pytest.raises(NotFoundError):
        await client.responses.retrieve(made.id)


async def test_c30_the_stream_helper(client: openai.AsyncOpenAI) -> None:
    async with client.responses.stream(model="demo", input="!think hm\n!stream 20") as stream:
        kinds = [event.type async for event in stream]
        final = await stream.get_final_response()
    assert kinds[0] == "response.created"
    assert final.output_text.split() == [f"t{number}" for number in range(20)]


@pytest.mark.parametrize("conversation", ["x", {"id": "x"}])
async def test_c30_both_forms_of_conversation(client: openai.AsyncOpenAI, conversation: Any) -> None:
    await client.responses.create(model="demo", input="apple", conversation=conversation)
    again = await client.responses.create(model="demo", input="!recall", conversation=conversation)
    assert again.output_text == "apple"


async def test_a_function_call_round_trip_through_the_client(client: openai.AsyncOpenAI) -> None:
    tools: Any = [WEATHER]
    first = await client.responses.create(model="demo", input=CALL, tools=tools)
    (call,) = [item for item in first.output if item.type == "function_call"]
    assert (call.name, json.loads(call.arguments)) == ("get_weather", {"city": "Paris"})
    output: Any = [{"type": "function_call_output", "call_id": call.call_id, "output": "sunny"}]
    second = await client.responses.create(model="demo", input=output, previous_response_id=first.id, tools=tools)
    assert second.output_text == "sunny"


async def test_compliance_basic(served: Served) -> None:
    answer = await served.ask([{"type": "message", "role": "user", "content": "hello"}])
    judge_response(answer.json())
    assert answer.json()["status"] == "completed"
    assert text_of(answer.json()) == "echo: hello"


async def test_c29_compliance_streaming(served: Served) -> None:
    events = await served.stream("!think hm\nhello\n!stream 50")
    judge_stream(events)
    assert events[-1]["type"] == "response.completed"
    judge_response(events[-1]["response"])


async def test_compliance_system_prompt(served: Served) -> None:
    said = [{"role": "system", "content": "Talk like a pirate."}, {"role": "user", "content": "hello"}]
    answer = await served.ask(said)
    judge_response(answer.json())
    assert "Talk like a pirate." in served.prompts()[0]


async def test_compliance_tool_calling(served: Served) -> None:
    answer = await served.ask(CALL, tools=[WEATHER])
    judge_response(answer.json())
    (call,) = answer.json()["output"]
    assert (call["type"], call["name"], call["status"]) == ("function_call", "get_weather", "completed")
    assert answer.json()["status"] == "completed"


async def test_compliance_tool_calling_streaming(served: Served) -> None:
    events = await served.stream(f"first\n{CALL}", tools=[WEATHER])
    judge_stream(events)
    kinds = [event["type"] for event in events]
    assert "response.function_call_arguments.delta" in kinds
    assert [item["type"] for item in events[-1]["response"]["output"]] == ["message", "function_call"]


async def test_compliance_function_call_round_trip_stateless(served: Served) -> None:
    first = (await served.ask(CALL, tools=[WEATHER])).json()
    call = first["output"][0]
    output = {"type": "function_call_output", "call_id": call["call_id"], "output": "sunny"}
    history = [{"role": "user", "content": CALL}, call, output]
    second = await served.ask(history, tools=[WEATHER])
    judge_response(second.json())
    assert text_of(second.json()) == "sunny"
    assert served.prompts() == [CALL]


async def test_compliance_image_input(served: Served) -> None:
    image = {"type": "input_image", "image_url": f"data:image/png;base64,{PNG}", "detail": "auto"}
    said = [{"role": "user", "content": [{"type": "input_text", "text": "!image"}, image]}]
    answer = await served.ask(said)
    judge_response(answer.json())
    assert text_of(answer.json()) == "15"


async def test_compliance_file_input(served: Served) -> None:
    data = base64.b64encode(b"some words").decode()
    file = {"type": "input_file", "filename": "notes.txt", "file_data": f"data:text/plain;base64,{data}"}
    said = [{"role": "user", "content": [{"type": "input_text", "text": "read"}, file]}]
    answer = await served.ask(said)
    judge_response(answer.json())
    blocks = served.frames("session/prompt")[0]["params"]["prompt"]
    assert blocks[1]["resource"]["text"] == "some words"


async def test_compliance_multi_turn(served: Served) -> None:
    said = [
        {"role": "user", "content": "apple"},
        {"role": "assistant", "content": "echo: apple"},
        {"role": "user", "content": "!recall"},
    ]
    answer = await served.ask(said)
    judge_response(answer.json())
    assert text_of(answer.json()) == "apple"


async def test_compliance_previous_response_id(served: Served) -> None:
    first = await served.ask("apple")
    second = await served.ask("!recall", previous_response_id=first.json()["id"])
    judge_response(second.json())
    assert second.json()["previous_response_id"] == first.json()["id"]
    assert text_of(second.json()) == "apple"


async def test_an_item_may_be_named_instead_of_sent(served: Served) -> None:
    first = (await served.ask("!think hm\napple")).json()
    named = [{"type": "item_reference", "id": item["id"]} for item in first["output"]]
    history = [{"role": "user", "content": "!think hm\napple"}, *named, {"role": "user", "content": "!recall"}]
    assert await served.say(history) == "!think hm\napple"
    assert served.seats() == 1
    gone = await served.ask([{"type": "item_reference", "id": "msg_none"}, {"role": "user", "content": "hi"}])
    assert (gone.status_code, gone.json()["error"]["param"]) == (400, "input[0].id")


async def test_what_the_agent_does_itself_is_seen_and_is_no_call(served: Served) -> None:
    events = await served.stream("!call nothing_of_ours {}")
    judge_stream(events)
    output = events[-1]["response"]["output"]
    assert [item["type"] for item in output] == ["reasoning", "message"]
    assert output[0]["activity"]["title"] == "nothing_of_ours"
