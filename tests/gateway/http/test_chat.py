"""Chat completions: the same sessions for clients that resend everything."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from tests.support.served import SESSION, Served, serving

if TYPE_CHECKING:
    import openai

TOOL: Any = {"type": "function", "function": {"name": "get_weather", "parameters": {"type": "object"}}}
CALL = '!call get_weather {"city": "Paris"}'


@pytest.fixture
async def client(served: Served) -> AsyncIterator[openai.AsyncOpenAI]:
    import openai

    made = openai.AsyncOpenAI(
        base_url=f"{served.base}/v1", api_key="unused", max_retries=0, _strict_response_validation=True
    )
    async with made:
        yield made


def user(text: str) -> Any:
    return {"role": "user", "content": text}


def assistant(text: str) -> Any:
    return {"role": "assistant", "content": text}


async def test_c30_chat(client: openai.AsyncOpenAI) -> None:
    made = await client.chat.completions.create(model="demo", messages=[user("hello")])
    assert made.choices[0].message.content == "echo: hello"
    assert made.choices[0].finish_reason == "stop"


async def test_c30_chat_stream_with_usage(client: openai.AsyncOpenAI) -> None:
    stream = await client.chat.completions.create(
        model="demo", messages=[user("!think hm\n!stream 20")], stream=True, stream_options={"include_usage": True}
    )
    chunks = [chunk async for chunk in stream]
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert text.split() == [f"t{number}" for number in range(20)]
    assert chunks[-1].usage is not None
    assert [chunk.choices[0].finish_reason for chunk in chunks if chunk.choices][-1] == "stop"


@pytest.mark.parametrize("stream", [False, True])
async def test_a_tool_round_trip(client: openai.AsyncOpenAI, served: Served, stream: bool) -> None:
    messages: list[Any] = [user(CALL)]
    call = await called(client, messages, stream=stream)
    assert json.loads(call["function"]["arguments"]) == {"city": "Paris"}
    messages += [
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": call["id"], "content": "sunny"},
    ]
    second = await client.chat.completions.create(model="demo", messages=messages, tools=[TOOL])
    assert second.choices[0].message.content == "sunny"
    messages += [assistant("sunny"), user("!recall")]
    third = await client.chat.completions.create(model="demo", messages=messages, tools=[TOOL])
    assert third.choices[0].message.content == CALL
    assert len(served.prompts()) == 2
    assert served.seats() == 1


async def called(client: openai.AsyncOpenAI, messages: list[Any], *, stream: bool) -> dict[str, Any]:
    if not stream:
        made = await client.chat.completions.create(model="demo", messages=messages, tools=[TOOL])
        assert made.choices[0].finish_reason == "tool_calls"
        (call,) = made.choices[0].message.tool_calls or ()
        return call.model_dump()
    chunks = await client.chat.completions.create(model="demo", messages=messages, tools=[TOOL], stream=True)
    deltas = [chunk.choices[0] async for chunk in chunks]
    assert deltas[-1].finish_reason == "tool_calls"
    (call_delta,) = [call for delta in deltas for call in delta.delta.tool_calls or ()]
    return {"id": call_delta.id, "type": "function", "function": (call_delta.function or TOOL).model_dump()}


async def chat(served: Served, *messages: Any, headers: dict[str, str] | None = None) -> tuple[str, str]:
    answer = await served.http.post(
        "/v1/chat/completions", json={"model": "demo", "messages": messages}, headers=headers
    )
    assert answer.status_code == 200, answer.text
    return answer.json()["choices"][0]["message"]["content"], answer.headers[SESSION]


async def test_a_resent_history_lands_on_its_warm_seat(served: Served) -> None:
    said: list[Any] = []
    sessions = set()
    for number in range(5):
        said.append(user(f"word{number}"))
        text, session = await chat(served, {"role": "system", "content": "Be brief."}, *said)
        said.append(assistant(text))
        sessions.add(session)
    assert len(sessions) == 1
    assert served.seats() == 1
    assert served.prompts()[1:] == ["word1", "word2", "word3", "word4"]


async def test_any_divergence_opens_a_fresh_seat_with_the_history(served: Served) -> None:
    _, first = await chat(served, user("apple"))
    begun = [user("apple"), assistant("echo: apple")]
    changed = [user("lemon"), assistant("echo: apple")]
    text, second = await chat(served, *changed, user("!recall"))
    assert (text, second == first) == ("lemon", False)
    text, third = await chat(served, *begun, user("!recall"))
    assert (text, third == first) == ("apple", True)
    text, fourth = await chat(served, *begun, user("!recall"))
    assert (text, fourth in {first, second, third}) == ("apple", False)
    _, other_instructions = await chat(served, {"role": "system", "content": "x"}, *begun, user("hello"))
    assert other_instructions not in {first, second, third, fourth}


async def test_a_named_session_is_gone_on_with_whatever_is_resent(tmp_path: Path) -> None:
    name = {"x-ostler-session": "mine"}
    async with serving(tmp_path / "data") as served:
        _, first = await chat(served, user("apple"), headers=name)
        text, second = await chat(served, user("apple"), assistant("echo: apple"), user("!recall"), headers=name)
        assert (text, second) == ("apple", first)
    async with serving(tmp_path / "data") as served:
        text, third = await chat(served, user("!recall"), headers=name)
        assert (text, third) == ("apple\n!recall", first)


async def test_a_failed_turn_is_an_error_and_never_an_answer(served: Served) -> None:
    body = {"model": "demo", "messages": [user("!die 3")]}
    failed = await served.http.post("/v1/chat/completions", json=body)
    assert failed.status_code == 502
    assert set(failed.json()["error"]) == {"message", "type", "param", "code"}
    streamed = await served.http.post("/v1/chat/completions", json={**body, "stream": True})
    assert "[DONE]" not in streamed.text
    assert '"error"' in streamed.text


@pytest.mark.parametrize(
    "fields",
    [{"messages": []}, {"messages": "x"}, {"messages": [{"role": "robot", "content": "x"}]}, {}, {"n": 2}],
)
@pytest.mark.asyncio(loop_scope="module")
async def test_z05_a_bad_chat_request_changes_nothing(untouched: Served, fields: dict[str, Any]) -> None:
    body = {"model": "demo", **({"messages": [user("x")]} if "n" in fields else {}), **fields}
    answer = await untouched.http.post("/v1/chat/completions", json=body)
    assert answer.status_code == 400
    assert set(answer.json()["error"]) == {"message", "type", "param", "code"}
    assert untouched.rows("select count(*) from sessions") == [(0,)]
