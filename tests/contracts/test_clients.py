"""Contract: through a whole gateway, the agent calls a function that the API client executes, and goes on with its
result in the same turn."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import pytest

from ostler.bridge.session_binding import RELAY
from ostler.pool.provider import Provider
from tests.support.agent_gateway import allowed
from tests.support.openai_oracle import judge_response, judge_stream
from tests.support.provider_harness import PATIENCE
from tests.support.served import client as plain
from tests.support.served import events_of, gateway_at
from tests.support.waiting import eventually
from tests.support.witness import arguments
from tools.agents.recipes import Recipe

if TYPE_CHECKING:
    import openai

ASKED = '!call get_word {"text": "asked"}'
RESULT = "result-canary"
PARAMETERS = {"type": "object", "properties": {"text": {"type": "string"}}}
FUNCTION = {"name": "get_word", "description": "Knows a word.", "parameters": PARAMETERS}


@pytest.fixture
async def client(provider: Provider, recipe: Recipe, tmp_path: Path) -> AsyncIterator[openai.AsyncOpenAI]:
    """What a user of this agent would make, but strict. The agent's model is the client's default."""
    import openai

    async with (
        gateway_at(
            tmp_path / "data",
            {provider.name: section_of(recipe)},
            {},
            {"pool__model_permissions": allowed(provider)},
        ) as (_, base),
        openai.AsyncOpenAI(
            base_url=f"{base}/v1", api_key="unused", max_retries=0, timeout=PATIENCE, _strict_response_validation=True
        ) as made,
    ):
        yield made


def section_of(recipe: Recipe) -> dict[str, Any]:
    settings = recipe.settings
    return {
        "command": None if settings.command is None else list(settings.command),
        "args": list(settings.args),
        "env": dict(settings.env),
        "home": settings.home,
    }


def model_of(provider: Provider, recipe: Recipe) -> str:
    return f"{provider.name}/{recipe.model}"


async def test_a_client_function_over_responses(client: openai.AsyncOpenAI, provider: Provider, recipe: Recipe) -> None:
    async def answer(given: Any, **fields: Any) -> dict[str, Any]:
        made = await client.responses.with_raw_response.create(
            model=model_of(provider, recipe),
            input=given,
            tools=[{"type": "function", **FUNCTION}],
            stream=True,
            **fields,
        )
        events = events_of((await made.http_response.aread()).decode())
        judge_stream(events)
        return whole(events[-1]["response"])

    first = await answer(ASKED)
    (call,) = [item for item in first["output"] if item["type"] == "function_call"]
    assert (call["name"], json.loads(call["arguments"])) == ("get_word", {"text": "asked"})
    output = {"type": "function_call_output", "call_id": call["call_id"], "output": RESULT}
    second = await answer([output], previous_response_id=first["id"])
    assert RESULT in said(second)
    third = await answer("!recall", previous_response_id=second["id"])
    assert said(third).count("!call get_word") == 1


async def test_a_client_function_over_chat_completions(
    client: openai.AsyncOpenAI, provider: Provider, recipe: Recipe
) -> None:
    messages: list[Any] = [{"role": "user", "content": ASKED}]

    async def answer() -> Any:
        made = await client.chat.completions.create(
            model=model_of(provider, recipe), messages=messages, tools=[{"type": "function", "function": FUNCTION}]
        )
        messages.append(made.choices[0].message.model_dump())
        return made.choices[0]

    first = await answer()
    assert first.finish_reason == "tool_calls"
    (call,) = first.message.tool_calls
    assert (call.function.name, json.loads(call.function.arguments)) == ("get_word", {"text": "asked"})
    messages.append({"role": "tool", "tool_call_id": call.id, "content": RESULT})
    second = await answer()
    assert (second.finish_reason, RESULT in second.message.content) == ("stop", True)


async def test_n16_a_relay_that_dies_costs_the_next_turn_no_tools_and_is_told_of_once(
    provider: Provider, recipe: Recipe, tmp_path: Path
) -> None:
    section = section_of(recipe) | {"tool_channel": "relay"}
    permitted = {"pool__model_permissions": allowed(provider)}
    async with (
        gateway_at(tmp_path / "data", {provider.name: section}, {}, permitted) as (gateway, base),
        plain(base) as http,
    ):

        async def answer(given: Any) -> dict[str, Any]:
            body = {"model": model_of(provider, recipe), "input": given, "conversation": "x"}
            body |= {"tools": [{"type": "function", **FUNCTION}]}
            made = await http.post("/v1/responses", json=body, timeout=PATIENCE)
            return whole(made.json())

        async def call() -> list[str]:
            """The function is called and its result comes back; the notices of both answers."""
            first = await answer(ASKED)
            (made,) = [item for item in first["output"] if item["type"] == "function_call"]
            second = await answer([{"type": "function_call_output", "call_id": made["call_id"], "output": RESULT}])
            assert RESULT in said(second)
            kinds = [item["activity"]["kind"] for item in first["output"] + second["output"] if "activity" in item]
            return [kind for kind in kinds if kind not in {"tool_call", "permission"}]

        assert await call() == []
        for child in psutil.Process().children(recursive=True):
            if str(RELAY) in arguments(child.pid):
                child.kill()
        await eventually(lambda: gateway.bridge.stats.lost["ended"], "the bridge misses the relay")
        assert await call() == ["tools_lost"]
        assert await call() == []
        assert said(await answer("!recall")).count("!call get_word") == 3


def whole(response: dict[str, Any]) -> dict[str, Any]:
    judge_response(response)
    assert response["status"] == "completed", response["error"]
    return response


def said(response: dict[str, Any]) -> str:
    return "".join(part["text"] for item in response["output"] if item["type"] == "message" for part in item["content"])
