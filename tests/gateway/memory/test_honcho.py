"""The Honcho provider: its real client, over loopback HTTP, against a server that speaks the same API."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from ostler.gateway.config.settings import HonchoSettings
from ostler.gateway.memory.honcho import ASSISTANT, MOST_KEPT, HonchoMemory, RecentlyKept
from ostler.gateway.memory.outside import name_for
from ostler.gateway.model.observers import SwitchReason
from tests.support.memory import home_in, remembering
from tests.support.memory_servers import KEY, HonchoService, running
from tests.support.served import serving
from tests.support.waiting import eventually

ANNA, BERT = {"user": "anna/telegram:1"}, {"user": "bert"}
PEER = name_for("user", ANNA["user"])


@pytest.fixture
def service() -> Iterator[HonchoService]:
    service = HonchoService()
    with running(service):
        yield service


@pytest.fixture
def memory(service: HonchoService, tmp_path: Path) -> Iterator[HonchoMemory]:
    settings = HonchoSettings(url=service.url, api_key=KEY, workspace="stable", timeout=300)
    made = HonchoMemory(home_in(tmp_path, honcho=settings))
    made.initialize()
    yield made
    made.close()


def asked(service: HonchoService) -> int:
    """How often anybody was asked for."""
    return sum(1 for method, path in service.seen if method == "GET" and path.endswith("/context"))


def test_a_turn_is_two_messages_of_two_peers_in_the_session_of_ours(
    service: HonchoService, memory: HonchoMemory
) -> None:
    memory.sync_turn("u1", "a1", session_id="sess_p", **ANNA)
    memory.sync_turn("u2", "  ", session_id="sess_p", **ANNA)
    assert [(each["peer_id"], each["content"]) for each in service.messages] == [
        (PEER, "u1"),
        (ASSISTANT, "a1"),
        (PEER, "u2"),
    ]
    (session,) = service.sessions.values()
    assert (session["workspace_id"], session["metadata"]) == ("stable", {"session_id": "sess_p"})
    assert set(session["peers"]) == {PEER, ASSISTANT}
    assert service.peers[ASSISTANT]["configuration"] == {"observe_me": False}


def test_long_words_are_sent_in_pieces_and_not_for_ever(service: HonchoService, memory: HonchoMemory) -> None:
    memory.sync_turn("x" * 50_000, "y" * 10_000_000, session_id="p", **ANNA)
    assert [len(each["content"]) for each in service.messages][:3] == [20_000, 20_000, 10_000]
    assert len(service.messages) == 3 + 20


def test_b33_only_the_peer_of_the_user_is_asked(memory: HonchoMemory) -> None:
    memory.sync_turn("My cat is called Miso", "ok", session_id="p", **ANNA)
    assert memory.prefetch("cat?", session_id="q", **ANNA) == "likes tea\nMy cat is called Miso"
    assert "Miso" not in memory.prefetch("cat?", session_id="b", **BERT)


def test_what_was_fetched_ahead_is_used_once_by_its_session(service: HonchoService, memory: HonchoMemory) -> None:
    memory.sync_turn("My cat is called Miso", "ok", session_id="p", **ANNA)
    memory.queue_prefetch("cat?", session_id="p", **ANNA)
    assert asked(service) == 1
    assert "Miso" in memory.prefetch("now?", session_id="p", **ANNA)
    assert asked(service) == 1
    memory.prefetch("and now?", session_id="p", **ANNA)
    assert asked(service) == 2


@pytest.mark.parametrize("facts", [{"parent_session_id": "p", "reset": True}, {"rewound": True}])
def test_b11_w12_nothing_fetched_ahead_survives_a_switch_or_a_rewind(
    service: HonchoService, memory: HonchoMemory, facts: dict[str, object]
) -> None:
    for session in ("p", "q"):
        memory.queue_prefetch("cat?", session_id=session, **ANNA)
    memory.on_session_switch("q", **facts, **ANNA)  # type: ignore[arg-type] # as it is called
    memory.prefetch("now?", session_id="q", **ANNA)
    assert asked(service) == 3


@pytest.mark.parametrize("rotated", ["rewound", "left and resumed"])
async def test_w12_a_fetch_ahead_that_comes_after_its_rotation_is_dropped(
    service: HonchoService, memory: HonchoMemory, tmp_path: Path, rotated: str
) -> None:
    async with remembering(tmp_path, memory, prefetch=20, drain=20) as at_work:
        memories = at_work.memories
        service.gate.clear()
        memories.turn_ended("p", "My cat is called Miso", "ok")
        await eventually(service.writing.is_set, "the turn is on its way, and its fetch ahead behind it")
        if rotated == "rewound":
            memories.session_rewound("p")
        else:
            memories.session_switched("q", parent_id="p", reason=SwitchReason.NEW)
            memories.session_switched("p", parent_id="q", reason=SwitchReason.RESUME)
        asking = asyncio.create_task(memories.recall("p", "now?"))
        service.gate.set()
        await asking
        assert asked(service) == 2


def test_b12_a_switch_without_a_parent_keeps_the_earlier_one(service: HonchoService, memory: HonchoMemory) -> None:
    memory.on_session_switch("q", parent_session_id="p", reset=True, reason="new_session", **ANNA)
    memory.on_session_switch("q", rewound=True, **ANNA)
    assert memory.parent("q") == "p"
    memory.on_session_switch("q", parent_session_id="t", reason="resume", **ANNA)
    assert memory.parent("q") == "t"
    memory.sync_turn("u", "a", session_id="q", **ANNA)
    (session,) = service.sessions.values()
    assert session["metadata"] == {"session_id": "q", "parent_session_id": "t"}


def test_an_erased_session_is_deleted_with_what_was_fetched_for_it(
    service: HonchoService, memory: HonchoMemory
) -> None:
    memory.sync_turn("My cat is called Miso", "ok", session_id="p", **ANNA)
    memory.sync_turn("My dog is called Rex", "ok", session_id="q", **ANNA)
    memory.queue_prefetch("cat?", session_id="p", **ANNA)
    memory.on_session_erased("p", **ANNA)
    assert memory.prefetch("cat?", session_id="p", **ANNA) == "likes tea\nMy dog is called Rex"
    assert list(service.sessions) == [name_for("", "q")]


def test_what_is_kept_is_bounded() -> None:
    kept = RecentlyKept()
    for number in range(MOST_KEPT + 1):
        kept.keep(str(number), str(number))
    assert (kept.get("0"), kept.get("1"), kept.take("2"), kept.get("2")) == (None, "1", "2", None)


async def test_a_gateway_remembers_through_honcho(service: HonchoService, tmp_path: Path) -> None:
    settings = {"url": service.url, "api_key": KEY}
    async with serving(
        tmp_path / "data", memory__enabled=True, memory__providers=["honcho"], memory__honcho=settings
    ) as served:
        await served.say("My cat is called Miso")
        await eventually(lambda: len(service.messages) == 2, "the turn is sent")
        await served.say("what is it called?")
        assert "Miso" in served.prompts()[-1]
