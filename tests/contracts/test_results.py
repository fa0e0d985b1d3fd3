"""Contract: what a function of the client returns reaches the model, whatever JSON it is.

At the level that holds where nothing is set: a function of the client needs no permission."""

import json
from pathlib import Path
from typing import Any

import pytest

from ostler.pool.provider import Level, Provider
from tests.support.agent_gateway import gateway
from tests.support.served import text_of
from tools.agents.recipes import Recipe

RESULTS = ("42", "[1, 2]", "true", "null", '"word"', "-3.5", "[]", '{"a": 1}', "plain words")
TOOL = {"type": "function", "name": "get_value", "description": "A value.", "parameters": {"type": "object"}}


async def test_n46_n43_a_result_that_is_no_object_reaches_the_model(
    provider: Provider, recipe: Recipe, tmp_path: Path
) -> None:
    asked: dict[str, Any] = {"tools": [TOOL], "model": f"{provider.name}/{recipe.model}", "conversation": "values"}
    level = Level.WORKSPACE if Level.WORKSPACE in provider.levels else Level.AUTO
    async with gateway(provider, recipe, tmp_path, level) as served:
        for result in RESULTS:
            first = (await served.ask("!call get_value {}", **asked)).json()
            (call,) = [item for item in first["output"] if item["type"] == "function_call"]
            output = {"type": "function_call_output", "call_id": call["call_id"], "output": result}
            second = (await served.ask([output], **asked)).json()
            assert second["status"] == "completed", second
            assert holds(text_of(second), result)


def holds(text: str, result: str) -> bool:
    """Whether the model was told this. Agents wrap what they pass on, and write JSON with blanks of their own."""
    try:
        tight = json.dumps(json.loads(result), separators=(",", ":"))
    except ValueError:
        tight = result
    plain = text.replace("\\", "")
    return any(form in plain or form in plain.replace(" ", "") for form in (result, tight))


@pytest.mark.parametrize("result", RESULTS)
def test_a_result_is_looked_for_as_it_is(result: str) -> None:
    assert holds(f"it said {result}", result)
    assert not holds("an error of the tool", result)
