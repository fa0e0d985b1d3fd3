"""Contract: a conversation that a client sends along, or that is told again from the store, reaches the agent's model
item by item as they were sent: calls with name, id and arguments, results with their calls.

What a real agent was told is read from the log of the model it talks to; of the demo agent, which is its own model,
from its record.
"""

import json
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest

from ostler.pool.provider import Provider
from ostler.wire.json import JsonObject
from tests.support.agent_gateway import allowed
from tests.support.plain_http import NO_AUTHORITIES
from tests.support.provider_harness import PATIENCE
from tests.support.served import gateway_at
from tests.support.told import conversation, lines_in, messages, told, told_of_messages
from tests.support.waiting import eventually
from tools.agents.recipes import Recipe

MARK = "canary-lark"
QUESTION = "what was said?"
Heard = Callable[[str], list[list[tuple[str, str]]]]


@pytest.fixture
def heard(request: pytest.FixtureRequest, tmp_path: Path) -> Heard:
    """Every conversation that the agent's model was told and that begins with a mark."""
    log = request.config.getoption("--agent-log", default=None)

    def look(mark: str) -> list[list[tuple[str, str]]]:
        if log is None:
            texts = [
                block["text"] for blocks in recorded(tmp_path / "record.jsonl") for block in blocks if "text" in block
            ]
        else:
            lines = [json.loads(line) for line in Path(log).read_text().splitlines()]
            texts = [text for line in lines for text in line.get("told", ())]
        found = map(lines_in, texts)
        return [lines for lines in found if lines and lines[0][1].startswith(mark)]

    return look


def recorded(path: Path) -> list[list[dict[str, str]]]:
    """The blocks of every prompt."""
    frames = [json.loads(line)["frame"] for line in path.read_text().splitlines() if '"event": "in"' in line]
    return [frame["params"]["prompt"] for frame in frames if frame.get("method") == "session/prompt"]


async def test_n26_a_conversation_is_told_item_by_item_as_it_was_sent(
    provider: Provider, recipe: Recipe, tmp_path: Path, heard: Heard
) -> None:
    """By both dialects, and from the store."""
    settings = recipe.settings
    own = () if recipe.model != "demo" else ("--record", str(tmp_path / "record.jsonl"))
    section = {
        "command": None if settings.command is None else list(settings.command),
        "args": [*settings.args, *own],
        "env": dict(settings.env),
        "home": settings.home,
    }
    question = {"role": "user", "content": QUESTION}
    body = {"model": f"{provider.name}/{recipe.model}"}
    permitted = {"pool__model_permissions": allowed(provider)}
    marks = {way: f"{MARK} {way} {tmp_path}" for way in ("responses", "chat", "store")}
    async with (
        gateway_at(tmp_path / "data", {provider.name: section}, {}, permitted) as (_, base),
        httpx.AsyncClient(base_url=f"{base}/v1", timeout=PATIENCE, trust_env=False, verify=NO_AUTHORITIES) as http,
    ):
        made = await http.post("/conversations", json={"items": conversation(marks["store"])})
        asked: list[tuple[str, JsonObject]] = [
            ("/responses", {"input": [*conversation(marks["responses"]), question]}),
            ("/chat/completions", {"messages": [*messages(marks["chat"]), question]}),
            ("/responses", {"input": QUESTION, "conversation": made.json()["id"]}),
        ]
        for (path, fields), mark in zip(asked, marks.values(), strict=True):
            answer = await http.post(path, json={**body, **fields})
            assert answer.status_code == 200, answer.text
            assert f"echo: {QUESTION}" in answer.text
            await eventually(lambda mark=mark: heard(mark), "what the model was told")
    for way, mark in marks.items():
        expected = told_of_messages(mark) if way == "chat" else told(mark)
        assert [lines for lines in heard(mark) if lines != expected] == [], way
