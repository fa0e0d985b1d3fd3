"""What a loading agent repeats, set against what was said last."""

import re
from collections.abc import Sequence

import pytest

from ostler.pool.events import Other, Text, Thought, ToolStarted, TurnEvent, UserText
from ostler.pool.order import SessionMemo
from ostler.pool.prompt import ImagePart, TextPart
from ostler.pool.recital import HELD, Recital, end_of

QUESTION = "what is\n  the time?"


def recited(*events: TurnEvent, noise: str | None = None) -> Recital:
    recital = Recital(re.compile(noise) if noise else None)
    for event in events:
        recital.hear(event)
    return recital


def memo(question: str = QUESTION, *, answered: bool = True) -> SessionMemo:
    return SessionMemo("s", "/", 0, 0, said=end_of([TextPart(question)]), answered=answered)


EARLIER = (UserText("hello"), Text("hi"))


@pytest.mark.parametrize(
    "repeated",
    [
        (UserText(QUESTION), Text("noon")),
        (UserText("what is"), UserText(" the time?"), Thought("hm")),
        (UserText("[transcript] much"), Other("x", {}), UserText(QUESTION + "\n<context/>"), ToolStarted("t", "read")),
    ],
    ids=["whole", "pieces with other blanks", "among other words"],
)
def test_what_was_said_last_is_found(repeated: Sequence[TurnEvent]) -> None:
    assert recited(*EARLIER, *repeated).holds(memo())


@pytest.mark.parametrize(
    "repeated",
    [
        (),
        (UserText(QUESTION),),
        (UserText(QUESTION), Other("commands", {})),
        (UserText(QUESTION), Text("noon"), UserText("later"), Text("yes")),
        (UserText("<noise> " + QUESTION), Text("noon")),
    ],
    ids=["nothing of it", "no answer", "an answer of no words", "another question after it", "noise"],
)
def test_w41d_what_is_missing_is_missed(repeated: Sequence[TurnEvent]) -> None:
    assert not recited(*EARLIER, *repeated, noise="<noise>").holds(memo())


def test_an_agent_that_repeats_nothing_has_found_nothing() -> None:
    assert not recited(Other("commands", {})).holds(SessionMemo("s", "/", 0, 0))


def test_a_question_without_an_answer_needs_none() -> None:
    assert recited(*EARLIER, UserText(QUESTION)).holds(memo(answered=False))


def test_a_prompt_without_words_is_not_looked_for() -> None:
    assert end_of([ImagePart("aGk=", "image/png")]) == end_of([TextPart(" \n")]) == end_of([]) == ""
    assert recited(*EARLIER).holds(memo(" "))


def test_of_a_long_prompt_the_end_is_looked_for() -> None:
    long = "x" * 3 * HELD + "the end"
    recital = recited(UserText(long), Text("ok"))
    assert recital.holds(memo(long))
    assert not recital.holds(memo(long + "!"))
    assert (recital.told, recital.recalled) == (2, 2)
