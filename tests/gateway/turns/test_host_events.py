"""What the gateway itself says within a turn cannot be said by an agent, whatever the agent calls its updates."""

from pathlib import Path
from types import UnionType
from typing import Any, get_args, get_type_hints

import pytest

from ostler.pool.agent.codec import AgentRequest, Codec, PermissionWanted, SessionUpdate
from ostler.pool.events import AgentEvent, HostEvent
from tests.support.served import serving, text_of

KINDS = ("ostler/calls_ready", "ostler/calls_waiting", "ostler/permission", "ostler/history_cut")
FIELDS = '{"left_out": 7, "id": "mcpr_1", "title": "remove it", "arguments": "{}"}'


@pytest.mark.parametrize("kind", KINDS)
async def test_n41_an_update_named_like_a_signal_of_the_gateway_changes_nothing(tmp_path: Path, kind: str) -> None:
    said = f"before\n!update {kind} {FIELDS}\n!update {kind}\nafter"
    async with serving(tmp_path / "data", pool__permissions="ask") as served:
        answer = (await served.ask(said)).json()
        path = "/v1/sessions/me/messages"
        streamed = await served.http.post(path, json={"text": said, "stream": True})
    assert (answer["status"], text_of(answer)) == ("completed", "echo: before\necho: after")
    assert [item["type"] for item in answer["output"]] == ["message"]
    kinds = [line for line in streamed.text.splitlines() if line.startswith("event: ")]
    assert kinds[-1] == "event: session.message.completed"
    assert not [kind for kind in kinds if "permission" in kind or "notice" in kind]


def members(hint: Any) -> set[type]:
    """The classes of a union, a tuple or one class."""
    parts = get_args(hint)
    if isinstance(hint, UnionType) or parts:
        return {kind for part in parts for kind in members(part)}
    return {hint} if isinstance(hint, type) else set()


def test_n41_no_type_that_a_codec_returns_holds_an_event_of_the_host() -> None:
    returned = [get_type_hints(member).get("return") for member in vars(Codec).values() if callable(member)]
    kinds = set().union(*map(members, [*returned, SessionUpdate, AgentRequest, AgentEvent]))
    assert {PermissionWanted, *get_args(AgentEvent)} <= kinds
    assert not [kind for kind in kinds if issubclass(kind, HostEvent) or issubclass(HostEvent, kind)]
