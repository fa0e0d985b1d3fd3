"""Contract: every frame we send fits the official ACP schema, and so does every frame of our own agent.

What real agents send is theirs; where they leave the schema, our reader has to bear it, and the other checks show that.
"""

import json
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ostler.pool.events import Text
from ostler.pool.permission import allow
from ostler.pool.provider import Approval, CodecName, Provider
from ostler.wire.json import JsonObject
from tests.contracts.built_in import BUILT_IN
from tests.support import wiretap
from tests.support.acp_oracle import check_agent_frame, check_client_frame
from tests.support.provider_harness import ProviderHarness, begin, say
from tests.support.waiting import soon


async def test_every_frame_fits_the_schema(
    provider_harness: ProviderHarness, provider: Provider, tmp_path: Path
) -> None:
    if provider.codec is not CodecName.ACP:
        pytest.skip("its dialect is not ACP")
    tape = tmp_path / "tape.jsonl"
    approval = Approval.ASK if Approval.ASK in provider.approvals else Approval.AUTO
    transport = await provider_harness.start(
        approval=approval, prefix=(sys.executable, "-I", wiretap.__file__, str(tape))
    )
    session = await provider_harness.open(
        transport, ticket=provider_harness.tools("peek", word="tool-canary"), policy=allow
    )
    await say(session, "hello")
    await say(session, f"{provider_harness.recipe.asks} peek {{}}")
    turn = await begin(session, "!stream 1\n!sleep 40")
    async for event in turn:
        if isinstance(event, Text):
            turn.cancel()
    await say(session, "well")
    await soon(session.close(), "the end of a session")
    await transport.close()
    used = check(tape, theirs=provider.name in BUILT_IN)
    assert used >= {"initialize", "session/new", "session/prompt", "session/cancel"}


def check(tape: Path, *, theirs: bool) -> set[str]:
    """Judge every frame with what was pending then; the methods we used."""
    asked: dict[Any, str] = {}
    pending: dict[Any, str] = {}
    used = set()
    for direction, frame in frames(tape):
        ours = direction == "to"
        if ours:
            check_client_frame(frame, asked)
            used.add(frame.get("method", ""))
        elif theirs:
            check_agent_frame(frame, pending)
        note(frame, *((pending, asked) if ours else (asked, pending)))
    return used


def note(frame: JsonObject, requests: dict[Any, str], answered: dict[Any, str]) -> None:
    """A request waits from here on; an answer ends its waiting."""
    if "method" in frame and "id" in frame:
        requests[frame["id"]] = frame["method"]
    elif "id" in frame:
        answered.pop(frame["id"], None)


def frames(tape: Path) -> Iterator[tuple[str, JsonObject]]:
    for line in tape.read_text().splitlines():
        ((direction, text),) = json.loads(line).items()
        if text.lstrip().startswith("{"):
            yield direction, json.loads(text)
