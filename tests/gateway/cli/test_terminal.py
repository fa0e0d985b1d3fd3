"""The parts of `ostler chat` that need no terminal: events, the screen, the words that are completed."""

import io
from unicodedata import category

import pytest
from hypothesis import given
from hypothesis import strategies as st
from prompt_toolkit.completion import CompleteEvent
from prompt_toolkit.document import Document

from ostler.gateway.cli.terminal.completion import SlashCompleter
from ostler.gateway.cli.terminal.events import BrokenStream, EventReader
from ostler.gateway.cli.terminal.screen import DIM, Screen, harmless

STREAM = b'event: a\ndata: {"n": 1}\n\n: keepalive\n\ndata: {"n":\ndata: 2}\n\ndata: [DONE]\n\ndata: {"n": 3'


class Tty(io.StringIO):
    """A file that says it is a terminal."""

    def isatty(self) -> bool:
        return True


@given(st.lists(st.integers(1, 12)))
def test_events_are_the_same_in_whatever_pieces_they_come(sizes: list[int]) -> None:
    reader, rest, found = EventReader(), STREAM, []
    for size in [*sizes, len(STREAM)]:
        piece, rest = rest[:size], rest[size:]
        found += [event["n"] for event in reader.feed(piece)]
    assert found == [1, 2]


@pytest.mark.parametrize("data", [b"data: no json\n\n", b"data: [1]\n\n"])
def test_a_stream_that_is_none_of_a_gateway_is_said(data: bytes) -> None:
    with pytest.raises(BrokenStream):
        list(EventReader().feed(data))


@given(st.text())
def test_nothing_that_a_terminal_obeys_gets_through(text: str) -> None:
    shown = harmless(text)
    assert all(category(char) not in {"Cc", "Cf", "Cs"} or char in "\n\t\u200c\u200d" for char in shown)
    assert harmless(shown) == shown


@pytest.mark.parametrize("text", ["a\u00a0b", "\u3000", "👨\u200d👩\u200d👧", "é", "می\u200cخواهم", "1\n\t2"])
def test_what_is_only_shown_is_left_alone(text: str) -> None:
    assert harmless(text) == text


@pytest.mark.parametrize("text", ["\x1b[2J", "\x9b2J", "\u202e", "\u2066", "\x07", "\r", "\x00", "\ud800"])
def test_what_a_terminal_obeys_is_taken_out(text: str) -> None:
    assert harmless(f"<{text}>") in {"<>", "<[2J>", "<2J>"}


def test_a_pipe_gets_the_answers_and_a_person_the_rest() -> None:
    piped = Screen(io.StringIO(), io.StringIO())
    watched = Screen(Tty(), Tty())
    for screen in (piped, watched):
        screen.say("half \x1b[31man answer")
        screen.activity("Tool x: done")
        screen.notice("a notice")
        screen.end_line()
    assert piped.out.getvalue() == "half [31man answer\n"  # type: ignore[attr-defined] # a StringIO
    assert piped.err.getvalue() == "a notice\n"  # type: ignore[attr-defined] # a StringIO
    assert f"half [31man answer\n{DIM}· Tool x: done" in watched.out.getvalue()  # type: ignore[attr-defined] # a StringIO


@pytest.mark.parametrize(
    ("typed", "words"),
    [("/", ["/undo", "/new"]), ("/u", ["/undo"]), ("/undo 3", []), ("see /u", []), ("", []), ("u", [])],
)
def test_only_the_slash_word_of_a_message_is_completed(typed: str, words: list[str]) -> None:
    completer = SlashCompleter([("/undo", "take back"), ("/new", "begin anew")])
    found = completer.get_completions(Document(typed), CompleteEvent())
    assert [completion.text for completion in found] == words
