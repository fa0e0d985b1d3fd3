"""Contract: through a whole gateway, the agent calls a function that the API client executes, and goes on with its
result in the same turn."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ostler.pool.provider import Provider
from tests.agents.recipes import Recipe
from tests.support.agent_gateway import allowed
from tests.support.openai_oracle import judge_response, judge_stream
from tests.support.served import events_of, gateway_at
from tests.support.yard import PATIENCE

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

    settings = recipe.settings
    section = {
        "command": None if settings.command is None else list(settings.command),
        "args": list(settings.args),
        "env": dict(settings.env),
        "home": settings.home,
    }
    async with (
        gateway_at(tmp_path / "data", {provider.name: section}, {}, {"pool__model_permissions": allowed(provider)}) as (
            _,
            base,
        ),
        openai.AsyncOpenAI(
            base_url=f"{base}/v1", api_key="unused", max_retries=0, timeout=PATIENCE, _strict_response_validation=True
        ) as made,
    ):
        yield made


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


def whole(response: dict[str, Any]) -> dict[str, Any]:
    judge_response(response)
    assert response["status"] == "completed", response["error"]
    return response


def said(response: dict[str, Any]) -> str:
    return "".join(part["text"] for item in response["output"] if item["type"] == "message" for part in item["content"])
