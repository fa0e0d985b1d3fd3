"""The oracle itself: what it lets through, and that each kind of mistake is found."""

from typing import Any

import pytest

from tests.support.acp_oracle import (
    AGENT_METHODS,
    AGENT_NOTIFICATIONS,
    ANYTHING,
    CLIENT_METHODS,
    CLIENT_NOTIFICATIONS,
    ProtocolViolation,
    check_agent_frame,
    check_client_frame,
)

UPDATE = {"sessionUpdate": "agent_message_chunk", "content": {"type": "text", "text": "x"}}
PROMPT = {"sessionId": "s", "prompt": [{"type": "text", "text": "x"}]}


def note(method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": method, "params": params}


def ask(method: str, **params: Any) -> dict[str, Any]:
    return {"id": 1, **note(method, **params)}


def answer(**result: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 1, "result": result}


def test_sound_frames_pass() -> None:
    check_agent_frame(note("session/update", sessionId="s", update=UPDATE), {})
    check_agent_frame(answer(stopReason="end_turn"), {1: "session/prompt"})
    check_agent_frame({"jsonrpc": "2.0", "id": 1, "error": {"code": -1, "message": "m"}}, {1: "session/prompt"})
    check_client_frame(ask("session/prompt", **PROMPT))
    check_client_frame(note("session/cancel", sessionId="s"))
    outcome = {"outcome": "selected", "optionId": "a"}
    check_client_frame(answer(outcome=outcome), {1: "session/request_permission"})


@pytest.mark.parametrize(
    "frame",
    [
        {"method": "session/update", "params": {"sessionId": "s", "update": UPDATE}},
        note("session/update", sessionId="s", update={**UPDATE, "sessionUpdate": "agentMessageChunk"}),
        note("session/update", sessionId="s", update={**UPDATE, "surplus": 1}),
        note("session/update", sessionId="s", update={**UPDATE, "content": {"type": "text"}}),
        note("session/updated", sessionId="s"),
        ask("session/update", sessionId="s", update=UPDATE),
        answer(stopReason="done"),
        answer(),
        answer(stopReason="end_turn", usage={"totalTokens": "many"}),
        {**answer(stopReason="end_turn"), "id": 2},
        {**answer(stopReason="end_turn"), "error": {"code": 1, "message": "m"}},
        {"jsonrpc": "2.0", "id": 1, "error": {"message": "no code"}},
    ],
)
def test_a_wrong_frame_of_an_agent_is_found(frame: dict[str, Any]) -> None:
    with pytest.raises(ProtocolViolation):
        check_agent_frame(frame, {1: "session/prompt"})


@pytest.mark.parametrize(
    "frame",
    [
        ask("initialize", protocolVersion="1"),
        ask("session/prompt", sessionId="s", content=[]),
        ask("session/new", cwd="/", mcpServers=[{"name": "x", "command": "y", "args": [], "env": {}}]),
        ask("session/cancel", sessionId="s"),
        note("session/prompt", **PROMPT),
        answer(outcome={"optionId": "allow"}),
    ],
)
def test_a_wrong_frame_of_ours_is_found(frame: dict[str, Any]) -> None:
    with pytest.raises(ProtocolViolation):
        check_client_frame(frame, {1: "session/request_permission"})


def test_every_model_that_is_named_is_in_the_schema() -> None:
    from acp import schema

    named = {name for table in (AGENT_METHODS, CLIENT_METHODS) for pair in table.values() for name in pair}
    named |= {*AGENT_NOTIFICATIONS.values(), *CLIENT_NOTIFICATIONS.values()}
    assert named - {ANYTHING} <= set(dir(schema))
