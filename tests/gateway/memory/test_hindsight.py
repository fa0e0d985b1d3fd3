"""The Hindsight provider: its real client, over loopback HTTP, against a server that speaks the same API."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from ostler.gateway.config.settings import HindsightSettings
from ostler.gateway.memory.hindsight import MOST_CHAPTERS, HindsightMemory
from ostler.gateway.memory.outside import name_for
from ostler.gateway.memory.provider import Spoken
from ostler.gateway.model.observers import SwitchReason
from tests.support.memory import home_in, remembering
from tests.support.memory_servers import KEY, HindsightService, running
from tests.support.served import serving
from tests.support.waiting import eventually, soon

ANNA, BERT = {"user": "anna"}, {"user": "bert"}
BANK = name_for("ostler", "anna")
REASONS = [SwitchReason.NEW, SwitchReason.RESUME, SwitchReason.BRANCH, SwitchReason.COMPRESSION]


@pytest.fixture
def service() -> Iterator[HindsightService]:
    service = HindsightService()
    with running(service):
        yield service


def provider(service: HindsightService, folder: Path, every: int = 3) -> HindsightMemory:
    settings = HindsightSettings(url=service.url, api_key=KEY, retain_every=every, timeout=300)
    return HindsightMemory(home_in(folder, hindsight=settings))


@pytest.fixture
def memory(service: HindsightService, tmp_path: Path) -> Iterator[HindsightMemory]:
    made = provider(service, tmp_path)
    made.initialize()
    yield made
    service.refusing = False
    made.close()


def test_turns_are_sent_together_and_appended_to_one_document(
    service: HindsightService, memory: HindsightMemory
) -> None:
    for number in range(7):
        memory.sync_turn(f"u{number}", f"a{number}", session_id="p", **ANNA)
    chapter = memory.chapter("p", "anna")
    assert chapter.gathered == ["user: u6\nassistant: a6"]
    assert len(service.seen) == 2
    first, second = service.banks[BANK][chapter.document_id]
    assert first["content"] == "user: u0\nassistant: a0\n\nuser: u1\nassistant: a1\n\nuser: u2\nassistant: a2"
    assert (second["update_mode"], second["metadata"]) == ("append", {"session_id": "p"})


@pytest.mark.parametrize("reason", REASONS)
def test_b11_a_switch_opens_a_chapter_with_a_fresh_document_and_nothing_in_it(
    service: HindsightService, memory: HindsightMemory, reason: SwitchReason
) -> None:
    memory.sync_turn("u1", "a1", session_id="p", **ANNA)
    old = memory.chapter("p", "anna")
    target = "p" if reason is SwitchReason.COMPRESSION else "q"
    memory.on_session_switch(
        target, parent_session_id="p", reset=reason is SwitchReason.NEW, reason=reason.value, **ANNA
    )
    new = memory.chapter(target, "anna")
    assert new.document_id != old.document_id
    assert (new.gathered, new.parent) == ([], "p")
    assert service.document(BANK, old.document_id) == "user: u1\nassistant: a1"
    memory.sync_turn("u2", "a2", session_id=target, **ANNA)
    memory.on_session_end([Spoken("user", "u2")], session_id=target, **ANNA)
    assert service.document(BANK, new.document_id) == "user: u2\nassistant: a2"
    assert service.document(BANK, old.document_id) == "user: u1\nassistant: a1"


@pytest.mark.parametrize("reason", REASONS)
async def test_b11_w12_a_batch_in_flight_at_a_switch_goes_to_its_own_document(
    service: HindsightService, tmp_path: Path, reason: SwitchReason
) -> None:
    memory = provider(service, tmp_path, every=1)
    target = "p" if reason is SwitchReason.COMPRESSION else "q"
    async with remembering(tmp_path, memory, drain=20) as at_work:
        service.gate.clear()
        at_work.memories.turn_ended("p", "u1", "a1")
        await eventually(service.writing.is_set, "the batch is on its way")
        (old,) = [chapter.document_id for chapter in memory._chapters.values()]
        at_work.memories.session_switched(target, parent_id="p", reason=reason)
        at_work.memories.turn_ended(target, "u2", "a2")
        service.gate.set()
    documents = service.banks[BANK]
    assert service.document(BANK, old) == "user: u1\nassistant: a1"
    (new,) = documents.keys() - {old}
    assert service.document(BANK, new) == "user: u2\nassistant: a2"
    assert documents[new][0]["metadata"] == {"session_id": target, "parent_session_id": "p"}


def test_b11_a_rewind_drops_what_was_not_sent(service: HindsightService, memory: HindsightMemory) -> None:
    memory.sync_turn("u1", "a1", session_id="p", **ANNA)
    old = memory.chapter("p", "anna").document_id
    memory.on_session_switch("p", rewound=True, **ANNA)
    chapter = memory.chapter("p", "anna")
    assert chapter.gathered == []
    assert chapter.document_id != old
    assert service.seen == []


def test_b12_a_switch_without_a_parent_keeps_the_earlier_one(memory: HindsightMemory) -> None:
    memory.on_session_switch("q", parent_session_id="p", reset=True, reason="new_session", **ANNA)
    memory.on_session_switch("q", rewound=True, **ANNA)
    assert memory.chapter("q", "anna").parent == "p"
    memory.on_session_switch("q", parent_session_id="t", reason="resume", **ANNA)
    assert memory.chapter("q", "anna").parent == "t"


def test_b33_what_one_user_has_said_is_recalled_for_that_user_only(memory: HindsightMemory) -> None:
    assert memory.prefetch("where is miso", session_id="q", **ANNA) == ""
    for number in range(3):
        memory.sync_turn(f"Miso is asleep {number}", "ok", session_id="p", **ANNA)
        memory.sync_turn("nothing", "ok", session_id="b", **BERT)
    assert "Miso is asleep 2" in memory.prefetch("where is miso", session_id="q", **ANNA)
    assert memory.prefetch("where is miso", session_id="q", **BERT) == ""


def test_what_could_not_be_sent_is_sent_later_and_to_its_own_document(
    service: HindsightService, memory: HindsightMemory
) -> None:
    memory.sync_turn("u1", "a1", session_id="p", **ANNA)
    memory.sync_turn("u2", "a2", session_id="p", **ANNA)
    service.refusing = True
    with pytest.raises(Exception, match="400"):
        memory.sync_turn("u3", "a3", session_id="p", **ANNA)
    service.refusing = False
    memory.sync_turn("u4", "a4", session_id="p", **ANNA)
    document = memory.chapter("p", "anna").document_id
    assert [f"u{number}" in service.document(BANK, document) for number in (1, 2, 3, 4)] == [True] * 4


Ending = Callable[[HindsightMemory], None]
ENDINGS: dict[str, Ending] = {
    "end": lambda memory: memory.on_session_end([], session_id="p", **ANNA),
    "switch": lambda memory: memory.on_session_switch("q", parent_session_id="p", reason="new_session", **ANNA),
    "switch to itself": lambda memory: memory.on_session_switch("p", parent_session_id="p", reason="resume", **ANNA),
}


@pytest.mark.parametrize("ending", ENDINGS.values(), ids=ENDINGS)
def test_a_chapter_that_could_not_be_sent_when_it_ended_is_sent_later_once(
    service: HindsightService, memory: HindsightMemory, ending: Ending
) -> None:
    memory.sync_turn("u1", "a1", session_id="p", **ANNA)
    document = memory.chapter("p", "anna").document_id
    service.refusing = True
    with pytest.raises(Exception, match="400"):
        ending(memory)
    service.refusing = False
    for number in range(6):
        memory.sync_turn(f"t{number}", "ok", session_id="t", **ANNA)
    assert service.document(BANK, document) == "user: u1\nassistant: a1"


def test_what_could_not_be_sent_of_an_erased_session_is_never_sent(
    service: HindsightService, memory: HindsightMemory
) -> None:
    service.refusing = True
    memory.sync_turn("u1", "a1", session_id="p", **ANNA)
    with pytest.raises(Exception, match="400"):
        memory.on_session_switch("p", parent_session_id="p", reason="resume", **ANNA)
    memory.sync_turn("u2", "a2", session_id="p", **ANNA)
    service.refusing = False
    memory.on_session_erased("p", **ANNA)
    memory.on_session_end([], session_id="p", **ANNA)
    for number in range(3):
        memory.sync_turn(f"t{number}", "ok", session_id="t", **ANNA)
    assert len(service.banks[BANK]) == 1
    assert not any(word in str(service.banks) for word in ("u1", "u2"))


def test_the_closed_chapters_kept_for_a_server_that_is_away_are_bounded(
    service: HindsightService, memory: HindsightMemory
) -> None:
    service.refusing = True
    for number in range(MOST_CHAPTERS + 5):
        memory.sync_turn("u", "a", session_id=f"s{number}", **ANNA)
        with pytest.raises(Exception, match="400"):
            memory.on_session_end([], session_id=f"s{number}", **ANNA)
    service.refusing = False
    memory.sync_turn("u", "a", session_id="last", **ANNA)
    memory.on_session_end([], session_id="last", **ANNA)
    assert len(service.banks[BANK]) == MOST_CHAPTERS


def test_a_server_that_is_away_at_a_switch_does_not_leave_the_provider_in_the_old_chapter(
    service: HindsightService, memory: HindsightMemory
) -> None:
    memory.sync_turn("u1", "a1", session_id="p", **ANNA)
    service.refusing = True
    with pytest.raises(Exception, match="400"):
        memory.on_session_switch("q", parent_session_id="p", reset=True, reason="new_session", **ANNA)
    assert memory.chapter("q", "anna").parent == "p"


def test_the_chapters_kept_are_bounded_and_none_is_lost(service: HindsightService, memory: HindsightMemory) -> None:
    for number in range(MOST_CHAPTERS + 1):
        memory.sync_turn("u", "a", session_id=f"s{number}", **ANNA)
    assert len(memory._chapters) == MOST_CHAPTERS
    assert [parts[0]["metadata"] for parts in service.banks[BANK].values()] == [{"session_id": "s0"}]
    memory._chapters.clear()


async def test_z7_a_wrong_key_is_a_warning_without_the_key_and_the_turn_is_answered(
    service: HindsightService, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings = {"url": service.url, "api_key": "wrong-key-0123456789", "retain_every": 1}
    async with serving(
        tmp_path / "data", memory__enabled=True, memory__providers=["hindsight"], memory__hindsight=settings
    ) as served:
        assert await soon(served.say("hello"), "an answer") == "echo: hello"
    warned = [record.getMessage() for record in caplog.records if record.name == "ostler.memory"]
    assert len([text for text in warned if "sync_turn" in text]) == 1
    assert len([text for text in warned if "prefetch" in text]) == 1
    assert not any("wrong-key" in text for text in caplog.messages)


async def test_a_gateway_remembers_through_hindsight(service: HindsightService, tmp_path: Path) -> None:
    settings = {"url": service.url, "api_key": KEY, "retain_every": 1}
    async with serving(
        tmp_path / "data", memory__enabled=True, memory__providers=["hindsight"], memory__hindsight=settings
    ) as served:
        await served.say("Miso is asleep")
        await eventually(lambda: bool(service.banks), "the turn is sent")
        await served.say("where is Miso")
        assert "Miso is asleep" in served.prompts()[-1]
