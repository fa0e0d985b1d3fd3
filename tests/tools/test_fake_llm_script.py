"""The fake model's language: what a conversation is answered with."""

import pytest

from tools.fake_llm.script import Call, Model, Pause, Piece, Request, Result, Said, Say, Tool, User, answer

TOOLS = (Tool("mcp__gw__echo"), Tool("peek", "mcp__gw"), Tool("echoes"))


def request(*said: Said) -> Request:
    return Request("m", said, TOOLS, stream=True)


def answered(*said: Said) -> list[Piece]:
    return list(answer(request(*said)))


def text(*said: Said) -> str:
    return "".join(piece.text for piece in answered(*said) if isinstance(piece, Say))


def test_plain_text_is_echoed_line_by_line() -> None:
    assert text(User("one\n\ntwo")) == "echo: one\necho: two"


def test_the_last_text_of_the_user_counts_and_furniture_does_not() -> None:
    assert text(User("old"), Model(), User("new"), User("<system-reminder>!recall</system-reminder>")) == "echo: new"


def test_recall_tells_every_earlier_text_and_not_the_prompt() -> None:
    assert text(User("<env/>"), User("canary"), Model(), User("!recall")) == "<env/>\ncanary"


def test_recall_of_nothing_is_not_empty_because_agents_retry_empty_answers() -> None:
    assert text(User("!recall")) == "(nothing)"


def test_tools_are_named_in_order_with_their_space() -> None:
    assert text(User("!tools")) == "echoes\nmcp__gw.peek\nmcp__gw__echo"


def test_stream_is_one_piece_per_tick() -> None:
    assert answered(User("hi\n!stream 2")) == [Say("echo: hi"), Say("\nt0 "), Say("t1 ")]


def test_sleep_is_a_pause_where_it_stands() -> None:
    assert answered(User("!sleep 0.5\nhi")) == [Pause(0.5), Say("echo: hi")]


@pytest.mark.parametrize(
    ("name", "tool"), [("echo", TOOLS[0]), ("peek", TOOLS[1]), ("mcp__gw__echo", TOOLS[0]), ("echoes", TOOLS[2])]
)
def test_a_tool_is_found_by_the_end_of_its_qualified_name(name: str, tool: Tool) -> None:
    assert answered(User(f'!call {name} {{"a": 1}}')) == [Call(tool, {"a": 1})]


def test_a_tool_that_is_not_offered_is_an_error_text() -> None:
    assert text(User("!call gone {}\nhi")) == "error: no tool gone\necho: hi"


def test_an_answer_goes_on_behind_the_call_whose_result_came() -> None:
    prompt = User("first\n!call echo\nthen\n!call peek\nlast")
    assert answered(prompt)[-1] == Call(TOOLS[0], {})
    assert answered(prompt, Model(), Result("r1"))[:2] == [Say("r1"), Say("\necho: then")]
    assert answered(prompt, Model(), Result("r1"))[-1] == Call(TOOLS[1], {})
    assert answered(prompt, Model(), Result("r1"), Model(), Result("r2")) == [Say("r2"), Say("\necho: last")]


def test_nothing_asked_is_said() -> None:
    assert text(User("<only furniture>")) == "nothing was asked"
