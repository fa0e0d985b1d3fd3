"""The pure parts of commands: what was typed, how far back, what is shown and taken away."""

import json
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ostler.gateway.chat.commands.export import jsonl, markdown
from ostler.gateway.chat.commands.model import NoSuchModel, model_named
from ostler.gateway.chat.lists import ago, counted, message_lines, session_lines, short
from ostler.gateway.chat.rewinding import FEWEST, cut, first_undone, questions, turns_wanted
from ostler.gateway.chat.session_lookup import TypedWords, within, words_of
from ostler.gateway.model.model_names import Models
from ostler.gateway.model.records import MessageRecord, NewMessage, Role, SessionQuery, SessionRecord
from ostler.gateway.stores.exchange import Brought, bundles

MODELS = Models(
    {"fast": "demo/fast", "Faster": "demo/faster"},
    {"demo": "demo", "other": "other"},
    "demo/demo",
    ("other/one", "other/two"),
)


def said(*roles: str) -> list[MessageRecord]:
    """A transcript: u, a, t and s for the roles."""
    names = {"u": Role.USER, "a": Role.ASSISTANT, "t": Role.TOOL, "s": Role.SYSTEM}
    return [
        MessageRecord(number, "sess_1", names[role], ({"type": "message"},), f"{role}{number}", None, 0.0, True, False)
        for number, role in enumerate("".join(roles), 1)
    ]


def session(**facts: object) -> SessionRecord:
    """A session of ann in chat 7 of telegram."""
    known: dict[str, object] = {
        "id": "sess_1", "key": "/k", "platform": "telegram", "owner": "ann", "chat": "7", "title": None,
        "parent_id": None, "origin": None, "model": None, "cwd": None, "instructions": None, "metadata": {},
        "created_at": 0.0, "last_active_at": 0.0, "ended_at": None, "end_reason": None, "expiry_finalized": False,
        "message_count": 2,
    }  # fmt: skip
    return SessionRecord(**{**known, **facts})  # type: ignore[arg-type] # facts of any type, checked by the record's users


@pytest.mark.parametrize(
    ("typed", "text", "number"),
    [
        ("Garden Plan", "Garden Plan", None),
        ('"Garden Plan"', "Garden Plan", None),
        ("[Garden Plan]", "Garden Plan", None),
        ("«Garden  Plan»", "Garden Plan", None),
        ('"unclosed', '"unclosed', None),
        ("2", "2", 2),
        ("#2", "#2", 2),
        ("-1", "-1", -1),
        ('"2"', "2", None),
        ("2nd", "2nd", None),
        ("²", "²", None),
        ("9" * 5000, "9" * 5000, 999_999_999),
        ("", "", None),
        ('""', "", None),
    ],
)
def test_b27_b29_what_was_typed_behind_resume(typed: str, text: str, number: int | None) -> None:
    words = words_of(typed)
    assert (words.text, words.number) == (text, number)


@given(st.text())
def test_b27_whatever_is_typed_is_read(typed: str) -> None:
    assert isinstance(words_of(typed), TypedWords)
    assert words_of(typed).number is None or typed.strip()


def test_rb9_only_what_matches_every_fact_of_a_scope_is_within() -> None:
    mine = SessionQuery("telegram", "ann", "7")
    assert within(session(), mine)
    assert within(session(), SessionQuery())
    for fact, other in (("platform", "web"), ("owner", "bob"), ("chat", "8"), ("owner", None)):
        assert not within(session(**{fact: other}), mine)


@pytest.mark.parametrize(
    ("typed", "turns"),
    [("", 1), ("3", 3), ("0", 1), ("-1", 1), ("+2", 2), ("99999999999999999999", 999_999_999), ("x", None),
     ("1 2", None), ("1.0", None), ("--1", None), ("²", None)],
)  # fmt: skip
def test_d03_rd7_how_many_turns(typed: str, turns: int | None) -> None:
    assert turns_wanted(typed) == turns


@given(st.text(alphabet="uat", max_size=12), st.integers(1, 20))
def test_d03_d04_an_undo_begins_at_a_question_and_takes_all_behind_it(roles: str, turns: int) -> None:
    messages = said(roles)
    first = first_undone(messages, turns)
    if first is None:
        assert questions(messages) == []
        return
    gone = messages[messages.index(first) :]
    assert first.role == Role.USER
    assert len(questions(gone)) == min(turns, len(questions(messages)))


@given(st.text(alphabet="uats", max_size=16))
def test_d12_a_cut_loses_nothing_and_summarises_something(roles: str) -> None:
    messages = said(roles)
    parted = cut(messages)
    if parted is None:
        assert len(messages) < FEWEST
        return
    assert [*parted.old, *parted.kept] == messages
    assert parted.old
    assert not parted.kept or parted.kept[0].role == Role.USER


@pytest.mark.parametrize(
    ("typed", "found"),
    [
        ("demo", "demo"),
        ("fast", "fast"),
        ("FASTER", "Faster"),
        ("demo/anything", "demo/anything"),
        ("faste", "Faster"),
        ("other/t", "other/t"),
    ],
)
def test_a_model_is_found_by_what_a_person_types(typed: str, found: str) -> None:
    assert model_named(MODELS, typed) == found


@pytest.mark.parametrize(
    ("typed", "hint"),
    [
        ("", "no model"),
        ("fas", "could be fast, Faster"),
        ("fasst", "Did you mean fast"),
        ("zz", "one of the providers demo"),
    ],
)
def test_a_model_that_is_none_is_answered_with_what_there_is(typed: str, hint: str) -> None:
    with pytest.raises(NoSuchModel, match=hint):
        model_named(MODELS, typed)


def test_lists_are_one_line_for_each_thing() -> None:
    two = [session(title="Plan"), session(id="sess_2", message_count=0)]
    lines = session_lines(two, {"sess_1": "long\n" * 100}, now=7200.0, current="sess_2")
    assert lines[0].startswith("1. Plan (2 messages, 2 h ago): long long")
    assert lines[1] == "2. sess_2 (0 messages, 2 h ago, this one)"
    assert all("\n" not in line for line in lines)
    assert (ago(0), ago(61), ago(86_400)) == ("just now", "1 min ago", "1 d ago")
    assert (counted(0, "turn"), counted(1, "turn"), counted(2, "turn")) == ("no turns", "1 turn", "2 turns")
    assert message_lines(said("uats")) == ["you: u1", "agent: a2", "tool: t3", "note: s4"]


@given(st.text(), st.integers(1, 50))
def test_short_is_short(text: str, most: int) -> None:
    assert len(short(text, most)) <= most
    assert "\n" not in short(text, most)


def test_an_export_can_be_imported_again() -> None:
    lines = jsonl(session(title="Plan"), said("ua")).encode().split(b"\n")
    brought = Brought()
    (bundle,) = bundles(lines, None, brought)
    assert (bundle.session.id, bundle.title, brought.unreadable) == ("sess_1", "Plan", 0)
    assert texts_of(bundle.messages) == ["u1", "a2"]
    assert json.loads(lines[0])["object"] == "session"


def test_a_session_without_messages_is_imported_from_a_file_that_is_named_after_it() -> None:
    lines = jsonl(session(title="Plan"), []).encode().split(b"\n")
    for named, sessions in (("sess_1", 1), (None, 1), ("sess_2", 1)):
        assert len(list(bundles(lines, named, Brought()))) == sessions
    assert list(bundles([], "sess_1", Brought())) == []


def texts_of(messages: Sequence[NewMessage]) -> list[str]:
    """What they say."""
    return [message.text for message in messages]


def test_what_was_said_cannot_look_like_the_structure_of_an_export() -> None:
    message = MessageRecord(1, "sess_1", Role.USER, (), "# no heading\n**agent**", None, 0.0, True, False)
    text = markdown(session(title="Plan"), [message])
    assert text == "# Plan\n\n**you**\n\n> # no heading\n> **agent**\n"
