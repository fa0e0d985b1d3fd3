"""The notebook: what it offers, to whom, and what it lets go."""

import os
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ostler.bridge.threads import Threads
from ostler.bridge.toolbelt import Toolbelt
from ostler.gateway.memory.embedded import FILE, EmbeddedMemory, NotReady
from ostler.gateway.memory.notebook import CANDIDATES, Notebook, NoteKind
from ostler.gateway.memory.provider import Spoken
from tests.support.memory import call_of, home_in
from tests.support.stores import Clock

ANNA: dict[str, str] = {"user": "anna"}
BERT: dict[str, str] = {"user": "bert"}


@pytest.fixture
def memory(tmp_path: Path) -> Iterator[EmbeddedMemory]:
    provider = EmbeddedMemory(home_in(tmp_path))
    provider.initialize()
    yield provider
    provider.close()


async def use(memory: EmbeddedMemory, session: str, user: str, name: str, **arguments: Any) -> str:
    """The text of a tool's answer."""
    belt = Toolbelt(memory.tools(session_id=session, user=user), threads=Threads(2))
    result = await belt(call_of(name, arguments))
    return str(result.content[0]["text"])


def test_b33_what_was_said_is_offered_to_the_same_user_in_another_session_only(memory: EmbeddedMemory) -> None:
    memory.sync_turn("My cat is called Miso and hates baths", "Noted.", session_id="p", **ANNA)
    asked = "what did I say my cat hates?"
    assert "Miso" in memory.prefetch(asked, session_id="q", **ANNA)
    assert memory.prefetch(asked, session_id="p", **ANNA) == ""
    assert memory.prefetch(asked, session_id="q", **BERT) == ""


async def test_b33_the_tools_of_one_user_touch_nothing_of_another(memory: EmbeddedMemory) -> None:
    assert "note 1" in await use(memory, "p", "anna", "remember", fact="The door code is 4711")
    assert "4711" in await use(memory, "q", "anna", "recall", query="door code")
    assert await use(memory, "q", "bert", "recall", query="door code") == "[]"
    assert "no note 1" in await use(memory, "q", "bert", "forget", note=1)
    assert "4711" in memory.prefetch("what is the code?", session_id="p", **ANNA)
    assert "forgotten" in await use(memory, "q", "anna", "forget", note=1)
    assert memory.prefetch("what is the code?", session_id="p", **ANNA) == ""


async def test_a_fact_is_kept_once_and_an_empty_one_not_at_all(memory: EmbeddedMemory) -> None:
    first = await use(memory, "p", "anna", "remember", fact="Tea, not coffee")
    assert await use(memory, "q", "anna", "remember", fact=" Tea, not coffee ") == first
    assert "nothing" in await use(memory, "p", "anna", "remember", fact="  ")


@pytest.mark.parametrize("question", ["", "?", "what is it", '" OR 1', "NEAR(a b)", "token : x", "猫" * 30, "\ud800 x"])
def test_no_question_is_an_operator_or_an_error(memory: EmbeddedMemory, question: str) -> None:
    memory.sync_turn("The red bicycle stands in the cellar", "ok", session_id="p", **ANNA)
    assert memory.prefetch(question, session_id="q", **ANNA) == ""


def test_one_word_in_common_is_chance_and_small_talk_is_not_kept(memory: EmbeddedMemory) -> None:
    memory.sync_turn("The red bicycle stands in the cellar", "ok", session_id="p", **ANNA)
    memory.sync_turn("hello there", "hi", session_id="p", **ANNA)
    assert memory.prefetch("is the cellar dry enough for potatoes?", session_id="q", **ANNA) == ""
    assert memory.prefetch("hello there", session_id="q", **ANNA) == ""
    assert "bicycle" in memory.prefetch("where are my bicycles, in the cellar?", session_id="q", **ANNA)


def test_w12_what_was_taken_back_is_not_kept_and_the_end_brings_the_rest_again(memory: EmbeddedMemory) -> None:
    memory.sync_turn("The red bicycle stands in the cellar", "ok", session_id="p", **ANNA)
    memory.sync_turn("The blue piano stands in the attic", "ok", session_id="p", **ANNA)
    memory.on_session_switch("p", rewound=True, **ANNA)
    assert memory.prefetch("blue piano attic", session_id="q", **ANNA) == ""
    ended = [Spoken("user", "The red bicycle stands in the cellar"), Spoken("assistant", "The blue piano is there")]
    memory.on_session_end(ended, session_id="p", **ANNA)
    assert "bicycle" in memory.prefetch("red bicycle cellar", session_id="q", **ANNA)
    assert memory.prefetch("blue piano attic", session_id="q", **ANNA) == ""


async def test_what_was_forgotten_comes_back_neither_at_the_end_nor_by_the_words_that_asked_for_it(
    memory: EmbeddedMemory,
) -> None:
    code, plea = "The code of the door is 4711", "Please forget that the code of the door is 4711"
    memory.sync_turn(code, "ok", session_id="p", **ANNA)
    assert "forgotten" in await use(memory, "p", "anna", "forget", note=1)
    memory.sync_turn(plea, "done", session_id="p", **ANNA)
    memory.sync_turn("The red bicycle stands in the cellar", "ok", session_id="p", **ANNA)
    memory.on_session_end([Spoken("user", code), Spoken("user", plea)], session_id="p", **ANNA)
    assert memory.prefetch("code of the door?", session_id="q", **ANNA) == ""
    assert "bicycle" in memory.prefetch("red bicycle cellar", session_id="q", **ANNA)
    await use(memory, "q", "anna", "remember", fact=code)
    assert "4711" in memory.prefetch("code of the door?", session_id="q", **ANNA)


async def test_what_a_turn_forgot_that_was_never_told_is_not_held_against_the_next_question(
    memory: EmbeddedMemory,
) -> None:
    memory.sync_turn("The code of the door is 4711", "ok", session_id="p", **ANNA)
    memory.on_turn_start("forget the code of the door", session_id="p", **ANNA)
    assert "forgotten" in await use(memory, "p", "anna", "forget", note=1)
    # That turn was cancelled: nobody tells how it ended.
    bicycle = "The red bicycle stands in the cellar"
    memory.on_turn_start(bicycle, session_id="p", **ANNA)
    memory.sync_turn(bicycle, "ok", session_id="p", **ANNA)
    assert "bicycle" in memory.prefetch("red bicycle cellar", session_id="q", **ANNA)


def test_a_switch_that_takes_nothing_back_forgets_nothing(memory: EmbeddedMemory) -> None:
    memory.sync_turn("The red bicycle stands in the cellar", "ok", session_id="p", **ANNA)
    memory.on_session_switch("q", parent_session_id="p", reset=True, reason="new_session", **ANNA)
    assert "bicycle" in memory.prefetch("red bicycle cellar", session_id="q", **ANNA)


def test_a_restart_keeps_everything_in_a_file_of_the_owner_only(tmp_path: Path) -> None:
    before = os.umask(0)
    try:
        book = Notebook(tmp_path / FILE, Clock())
    finally:
        os.umask(before)
    book.keep(NoteKind.FACT, "The door code is 4711", session_id="p", **ANNA)
    for file in tmp_path.glob(f"{FILE}*"):
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
    book.close()
    again = Notebook(tmp_path / FILE, Clock())
    assert [note.text for note in again.search("door", limit=5, **ANNA)] == ["The door code is 4711"]
    again.close()


def test_many_sayings_of_the_session_itself_hide_none_of_another_session(tmp_path: Path) -> None:
    book = Notebook(tmp_path / FILE, Clock())
    book.keep(NoteKind.SAYING, "the red bicycle stands in the cellar beside the old boxes", session_id="q", **ANNA)
    for number in range(2 * CANDIDATES):
        book.keep(NoteKind.SAYING, f"red bicycle {number}", session_id="p", **ANNA)
    found = book.search("red bicycle", limit=5, besides="p", **ANNA)
    assert [note.session_id for note in found] == ["q"]
    book.close()


def test_a_session_that_expired_leaves_its_facts_and_no_word_of_its_sayings(
    memory: EmbeddedMemory, tmp_path: Path
) -> None:
    memory.sync_turn("The red bicycle stands in the cellar", "ok", session_id="p", **ANNA)
    memory.sync_turn("The green lorry stands in the garden", "ok", session_id="q", **ANNA)
    memory._book.keep(NoteKind.FACT, "The door code is 4711", session_id="p", **ANNA)
    memory.on_session_expired("p", **ANNA)
    assert memory.prefetch("red bicycle, green lorry, door code", session_id="t", **ANNA).count("\n") == 1
    assert not any(b"bicycle" in file.read_bytes() for file in tmp_path.glob(f"{FILE}*"))


def test_the_oldest_sayings_of_a_user_make_way_and_no_fact_does(tmp_path: Path) -> None:
    book = Notebook(tmp_path / FILE, Clock(), most_sayings=5)
    book.keep(NoteKind.FACT, "gamma zero", session_id="p", **ANNA)
    for number in range(8):
        book.keep(NoteKind.SAYING, f"gamma number{number}", session_id="p", **ANNA)
    found = {text for (text,) in book._db.execute("SELECT text FROM notes ORDER BY id")}
    assert found == {"gamma zero", *(f"gamma number{number}" for number in range(3, 8))}
    book.close()


def test_a_memory_that_is_not_open_says_so(tmp_path: Path) -> None:
    with pytest.raises(NotReady):
        EmbeddedMemory(home_in(tmp_path)).prefetch("what?", session_id="p", **ANNA)
