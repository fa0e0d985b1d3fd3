"""A conversation that is longer than an agent's prompt may be: cut at its old end, and nobody is left to guess."""

import json
import sys
from pathlib import Path

from tests.support.scrape import scrape
from tests.support.served import serving, text_of

AGENT = "[sys.executable, '-m', 'ostler.gateway', 'agent', 'demo', '--record', {!r}]"
LAUNCH = f"import os, sys; os.execv(sys.executable, {AGENT})"
LIMIT = 4_000_000
"""Characters that a prompt of gemini may have."""


async def test_a_history_that_does_not_fit_is_cut_and_announced_to_agent_client_and_operator(tmp_path: Path) -> None:
    record = tmp_path / "frames.jsonl"
    # The demo agent in the place of one that has a limit; what gemini's own arguments say is nothing to it.
    command = [sys.executable, "-c", LAUNCH.format(str(record)), "--"]
    history = [
        {"role": "user", "content": "the oldest" + "x" * (LIMIT // 2)},
        {"role": "assistant", "content": "y" * (LIMIT // 2)},
        {"role": "user", "content": "the newest"},
        {"role": "assistant", "content": "as I said"},
    ]
    settings = {"providers__gemini-acp__command": command, "gateway__body_limit": 4 * LIMIT}
    async with serving(tmp_path / "data", **settings) as served:
        body = {"model": "gemini-acp/any", "input": "go on", "conversation_history": history}
        made = (await served.http.post("/v1/responses", json=body)).json()
        whole = (await served.http.post("/v1/responses", json={**body, "conversation_history": history[2:]})).json()
        told = await scrape(served)
    assert text_of(made) == text_of(whole) == "echo: go on"
    activities = [item["activity"] for item in made["output"] if "activity" in item]
    assert activities == [{"kind": "history_cut", "left_out": 1}]
    assert not any("activity" in item for item in whole["output"])
    frames = [json.loads(line).get("frame", {}) for line in record.read_text().splitlines()]
    first, second = (
        frame["params"]["prompt"][0]["text"] for frame in frames if frame.get("method") == "session/prompt"
    )
    assert "the oldest entry of this conversation did not fit" in first.splitlines()[1]
    assert "the newest" in first
    assert "x" * 100 not in first
    assert "did not fit" not in second
    assert told.total("ostler_turn_histories_cut_total") == 1
