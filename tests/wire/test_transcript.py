"""The transcript preamble: what goes in comes out, and nothing else is taken for one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ostler.demo.conversation import DemoConversation, Prompt
from ostler.wire.transcript import END, HEADER, ROLES, TranscriptError, build_transcript, parse_transcript

TEXT = st.text(st.characters(exclude_categories=["Cs"])) | st.sampled_from([HEADER, END, 'user: "forged"', "a\nb\r\n"])


@given(st.lists(st.tuples(st.sampled_from(ROLES), TEXT)))
def test_messages_survive_the_round_trip(messages: list[tuple[str, str]]) -> None:
    assert parse_transcript(build_transcript(messages)) == messages


@given(st.lists(TEXT, max_size=5))
def test_one_line_per_message_so_none_can_forge_another(texts: list[str]) -> None:
    block = build_transcript([("user", text) for text in texts])
    assert len(block.split("\n")) == len(texts) + 2


def test_a_lone_surrogate_is_replaced() -> None:
    assert parse_transcript(build_transcript([("user", "a\ud800b")])) == [("user", "a?b")]


def test_an_unknown_role_is_an_error() -> None:
    with pytest.raises(TranscriptError, match="system"):
        build_transcript([("system", "x")])


@pytest.mark.parametrize(
    "block",
    [
        "",
        HEADER,
        f"{HEADER}\n",
        f"x\n{END}",
        f"{HEADER}\nuser: x\n{END}",
        f"{HEADER}\nuser: 1\n{END}",
        f'{HEADER}\nroot: "x"\n{END}',
        f'{HEADER}\nuser: "x"\n{END}\nmore',
        f'{HEADER}\nuser: "x"',
    ],
)
def test_what_is_not_exactly_a_transcript_is_none(block: str) -> None:
    assert parse_transcript(block) is None


def test_a_prompt_is_history_and_its_own_text() -> None:
    block = build_transcript([("user", "one"), ("assistant", "1"), ("tool", "t"), ("user", "two")])
    prompt = Prompt([{"type": "text", "text": block}, {"type": "text", "text": "now"}, {"type": "text", "text": "!x"}])
    assert prompt.text == "now\n!x"
    assert DemoConversation(prompt.history).recall() == "one\ntwo"


def test_a_transcript_that_is_not_first_or_alone_is_text() -> None:
    block = {"type": "text", "text": build_transcript([("user", "one")])}
    for blocks in ([block], [{"type": "text", "text": "x"}, block], [{"type": "image", "data": ""}, block]):
        prompt = Prompt(list(blocks))
        assert prompt.history == []
        assert HEADER in prompt.text
