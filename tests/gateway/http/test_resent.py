"""Unmodified clients that bring their conversation along: what they resend, edit or import is told with every call."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.support.served import Served, serving
from tests.support.told import conversation, lines_in, messages, told, told_of_messages

ASKED = '!call get_weather {"city": "Paris"}\n!call get_time {}'


def get_weather(city: str) -> str:
    """The weather of a city."""
    return f"sunny in {city}"


def get_time() -> str:
    """What time it is."""
    return "noon"


def last_told(served: Served) -> list[tuple[str, str]]:
    return lines_in(served.prompts()[-1])


@pytest.mark.parametrize("kind", ["OpenAIResponsesModel", "OpenAIChatCompletionsModel"])
async def test_n26_the_agents_sdk_takes_its_conversation_to_another_gateway(tmp_path: Path, kind: str) -> None:
    import agents
    import openai
    from agents import Agent, RunConfig, Runner, function_tool

    make = getattr(agents, kind)
    given: Any = ASKED
    for folder in ("one", "two"):
        async with (
            serving(tmp_path / folder) as served,
            openai.AsyncOpenAI(base_url=f"{served.base}/v1", api_key="unused") as client,
        ):
            model = make(model="demo", openai_client=client)
            agent = Agent(name="helper", model=model, tools=[function_tool(get_weather), function_tool(get_time)])
            result = await Runner.run(agent, given, run_config=RunConfig(tracing_disabled=True))
            lines = last_told(served)
        given = [*result.to_input_list(), {"role": "user", "content": "and then?"}]
    ids = [item["call_id"] for item in given if item.get("type") == "function_call"]
    assert len(ids) == 2
    assert [line for line in lines if line[0] in ("user", "tool")] == [
        ("user", ASKED),
        ("tool", f'called get_weather ({ids[0]}) with {{"city":"Paris"}}'),
        ("tool", f"get_weather ({ids[0]}) answered: sunny in Paris"),
        ("tool", f"called get_time ({ids[1]}) with {{}}"),
        ("tool", f"get_time ({ids[1]}) answered: noon"),
    ]
    assert [text.strip() for role, text in lines if role == "assistant"][-2:] == ["sunny in Paris", "noon"]


@pytest.mark.parametrize("dialect", ["responses", "chat"])
async def test_n26_a_regenerated_and_an_edited_question_are_told_what_was_before_them(
    served: Served, dialect: str
) -> None:
    import openai

    mark = "canary-lark"
    before: list[Any] = conversation(mark) if dialect == "responses" else messages(mark)
    expected = told(mark) if dialect == "responses" else told_of_messages(mark)
    async with openai.AsyncOpenAI(base_url=f"{served.base}/v1", api_key="unused", max_retries=0) as client:
        for question in ("what was said?", "what was said?", "what was asked?"):
            asked = [*before, {"role": "user", "content": question}]
            if dialect == "responses":
                assert (await client.responses.create(model="demo", input=asked)).output_text == f"echo: {question}"
            else:
                made = await client.chat.completions.create(model="demo", messages=asked)
                assert made.choices[0].message.content == f"echo: {question}"
            assert last_told(served) == expected
    assert served.seats() == 3


async def test_n26_a_conversation_is_told_again_from_the_store_with_its_calls_and_results(tmp_path: Path) -> None:
    tools = [
        {"type": "function", "name": name, "parameters": {"type": "object"}} for name in ("get_weather", "get_time")
    ]
    async with serving(tmp_path / "data") as served:
        answer = (await served.ask(f"before\n{ASKED}", tools=tools, conversation="x")).json()
        ids = []
        for said in ("sunny", "noon"):
            (call,) = [item for item in answer["output"] if item["type"] == "function_call"]
            ids.append(call["call_id"])
            result = {"type": "function_call_output", "call_id": call["call_id"], "output": said}
            answer = (await served.ask([result], tools=tools, conversation="x")).json()
    async with serving(tmp_path / "data") as served:
        await served.ask("and then?", conversation="x")
        assert [(role, text.strip()) for role, text in last_told(served)] == [
            ("user", f"before\n{ASKED}"),
            ("assistant", "echo: before"),
            ("tool", f"called get_weather ({ids[0]}) with {json.dumps({'city': 'Paris'}, separators=(',', ':'))}"),
            ("tool", f"get_weather ({ids[0]}) answered: sunny"),
            ("assistant", "sunny"),
            ("tool", f"called get_time ({ids[1]}) with {{}}"),
            ("tool", f"get_time ({ids[1]}) answered: noon"),
            ("assistant", "noon"),
        ]


async def test_n26_a_result_that_comes_after_a_restart_is_told_with_the_name_of_its_call(tmp_path: Path) -> None:
    tools = [{"type": "function", "name": "get_weather", "parameters": {"type": "object"}}]
    async with serving(tmp_path / "data") as served:
        first = (await served.ask("!call get_weather {}", tools=tools, conversation="x")).json()
    (call,) = [item for item in first["output"] if item["type"] == "function_call"]
    result = {"type": "function_call_output", "call_id": call["call_id"], "output": "sunny"}
    async with serving(tmp_path / "data") as served:
        await served.ask([result], tools=tools, conversation="x")
        assert last_told(served)[-2:] == [
            ("tool", f"called get_weather ({call['call_id']}) with {{}}"),
            ("tool", f"get_weather ({call['call_id']}) answered: sunny"),
        ]
