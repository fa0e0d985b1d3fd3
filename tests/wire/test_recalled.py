"""What memory recalls, as a block of a prompt."""

from hypothesis import given
from hypothesis import strategies as st

from ostler.wire.recalled import END, HEADER, build_recalled, is_recalled


def test_each_line_is_quoted_with_its_source() -> None:
    block = build_recalled([("notes", "one\n\n two "), ("other", "three")], 1000)
    assert block.split("\n") == [HEADER, 'notes: "one"', 'notes: "two"', 'other: "three"', END]
    assert is_recalled(block)


def test_nothing_recalled_is_no_block() -> None:
    assert build_recalled([], 1000) == build_recalled([("notes", " \n ")], 1000) == ""
    assert not is_recalled("")


def test_what_does_not_fit_is_left_out_whole() -> None:
    block = build_recalled([("n", "x" * 100), ("n", "short")], 50)
    assert block.split("\n") == [HEADER, 'n: "short"', END]


@given(st.lists(st.text(), max_size=5), st.integers(1, 200))
def test_no_text_forges_a_line_or_an_end(texts: list[str], limit: int) -> None:
    block = build_recalled([("n", text) for text in texts], limit)
    lines = block.split("\n")[1:-1]
    assert all(line.startswith('n: "') and line.endswith('"') for line in lines)
    assert sum(map(len, lines)) <= limit
    block.encode()
