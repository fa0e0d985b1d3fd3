"""What a loading agent repeats, set against what was said last."""

import re
from collections.abc import Sequence

import pytest

from ostler.pool.agent.replay_check import END, REACH, LastPrompt, ReplayCheck, end_of
from ostler.pool.events import Other, Text, Thought, ToolStarted, TurnEvent, UserText
from ostler.pool.order import LastTexts
from ostler.pool.prompt import FilePart, ImagePart, PromptPart, TextPart

QUESTION = "what is\n  the time in Samarkand, and who says so?"
NOTE = UserText("[Request interrupted by user]")
EARLIER = (UserText("hello"), Text("hi"))
IMAGE = ImagePart("aGk=", "image/png")
Repeated = Sequence[TurnEvent]


def memo(*texts: str, alone: bool = True, answered: bool = True, since: int = 0) -> LastTexts:
    return LastTexts(end_of([TextPart(text) for text in texts or (QUESTION,)]), alone, answered, since)


def after(*asked: Sequence[PromptPart]) -> LastTexts:
    """What is looked for when all of these were answered."""
    last = LastPrompt(LastTexts())
    for parts in asked:
        last.ask(parts)
        last.end(well=True, answered=True)
    return last.said


def recited(known: LastTexts, *events: TurnEvent, noise: str | None = None) -> ReplayCheck:
    recital = ReplayCheck(known, re.compile(noise) if noise else None)
    for event in events:
        recital.record(event)
    return recital


def holds(known: LastTexts, *events: TurnEvent, noise: str | None = None) -> bool:
    return recited(known, *EARLIER, *events, noise=noise).holds


@pytest.mark.parametrize(
    "repeated",
    [
        (UserText(QUESTION), Text("noon")),
        (UserText("what is"), UserText(" the time in Samarkand,"), UserText("and who says so?"), ToolStarted("t", "x")),
        (UserText("[transcript] much"), Other("x", {}), UserText(QUESTION + "\n<context/>"), Thought("hm"), Text("1")),
        (UserText(QUESTION), UserText("a document " * REACH), Text("noon")),
        (UserText("x" * 2 * REACH + QUESTION), Text("noon")),
    ],
    ids=["whole", "pieces", "among other words", "before an attachment", "behind a long text"],
)
def test_what_was_said_last_is_found(repeated: Repeated) -> None:
    assert holds(memo(), *repeated)


@pytest.mark.parametrize(
    "repeated",
    [
        (),
        (UserText(QUESTION),),
        (UserText(QUESTION), Other("commands", {})),
        (UserText(QUESTION), Thought("hm")),
        (UserText(QUESTION), Text("noon"), UserText("later"), Text("yes")),
        (UserText(QUESTION), Text("noon"), UserText(QUESTION)),
        (UserText("<noise> " + QUESTION), Text("noon")),
    ],
    ids=["nothing of it", "no answer", "other news", "a thought only", "no last turn", "asked again", "noise"],
)
def test_w41d_what_is_missing_is_missed(repeated: Repeated) -> None:
    assert not holds(memo(), *repeated, noise="<noise>")


@pytest.mark.parametrize(("said", "earlier"), [("ok", "what tokens shall I look at?"), ("yes", "yesterday I wrote")])
def test_w41d_a_short_text_is_not_found_in_another(said: str, earlier: str) -> None:
    assert not holds(memo(said), UserText(earlier), Text("well"))
    assert holds(memo(said), UserText(earlier), Text("well"), UserText(said), Text("good"))
    assert holds(memo(said), UserText(f"[transcript]\n{earlier}"), UserText(said), Text("good"))
    assert holds(memo(said), UserText(f"[transcript]\n{earlier}\n{said}\n"), Text("good"))
    assert holds(memo(said), *map(UserText, said), Text("good"))


def test_blocks_may_be_joined_and_what_stands_beside_an_image_may_stand_anywhere() -> None:
    assert holds(memo("[transcript] of much", "what now?"), UserText("[transcript] of muchwhat now?"), Text("well"))
    beside = UserText("look here[@hosts](file:///etc/hosts)")
    assert holds(memo("look here", alone=False), beside, Text("well"))
    assert not holds(memo("look here"), beside, Text("well"))


def test_a_question_without_an_answer_needs_none() -> None:
    assert holds(memo(answered=False), UserText(QUESTION))


@pytest.mark.parametrize(
    "behind", [(), (UserText("stop it"), Text("I"), NOTE), (UserText("stop it"),)], ids=["lost", "with a note", "kept"]
)
def test_prompts_that_came_to_no_good_end_may_stand_behind_it(behind: Repeated) -> None:
    assert holds(memo(since=1), UserText(QUESTION), Text("noon"), *behind)
    assert not holds(memo(since=1), UserText("other"), Text("well"), *behind)


def test_what_is_looked_for_is_the_end_of_what_a_prompt_says() -> None:
    wordless: list[list[PromptPart]] = [[], [IMAGE], [TextPart(" \n")]]
    assert [end_of(parts) for parts in wordless] == [""] * 3
    assert holds(memo(" "))
    assert end_of([TextPart("why?" + " " * 5_000)]) == end_of([TextPart("why" + "\n" * 3_000 + "?")]) == "why?"
    assert end_of([TextPart("this"), IMAGE, TextPart("hi there"), IMAGE, TextPart("\n")]) == "hithere"
    assert end_of([TextPart("[history] much"), TextPart("hi")]) == "[history]muchhi"
    assert end_of([TextPart("hi"), FilePart("file:///x", "aGk=")]) == "hi"
    assert len(end_of([TextPart("x" * 2 * REACH)])) == END


def test_an_agent_that_repeats_nothing_has_found_nothing() -> None:
    recital = recited(memo(" "), Other("commands", {}))
    assert (recital.holds, recital.recalled) == (False, 0)


def test_what_is_remembered_is_the_last_prompt_that_came_to_a_good_end() -> None:
    last = LastPrompt(LastTexts())
    last.ask([TextPart("one")])
    last.end(well=True, answered=True)
    assert last.said == LastTexts("one", answered=True)
    for _ in range(2):
        last.ask([TextPart("cancelled")])
        last.end(well=False, answered=False)
    assert last.said == LastTexts("one", answered=True, since=2)
    last.ask([TextPart("silent"), IMAGE])
    last.end(well=True, answered=False)
    assert last.said == LastTexts("silent", alone=False)


def test_w41d_behind_a_prompt_without_words_the_one_before_it_is_looked_for() -> None:
    last = after([TextPart(QUESTION)], [IMAGE])
    assert last == LastTexts(end_of([TextPart(QUESTION)]), answered=True, since=1)
    assert holds(last, UserText(QUESTION), Text("noon"))
    assert holds(last, UserText(QUESTION), Text("noon"), UserText("[an image]"), Text("nice"))
    assert not holds(last)


def test_behind_a_command_of_the_agents_own_nothing_is_looked_for() -> None:
    for command in ("/compact", " /memory:show all\n", "/init\nand more"):
        assert after([TextPart(QUESTION)], [TextPart(command)]) == LastTexts(answered=True)


def test_w41d_a_path_is_no_command() -> None:
    asked = "/etc/hosts lacks a line for db1"
    assert after([TextPart(asked)]) == LastTexts(end_of([TextPart(asked)]), answered=True)
