"""Framing: any portions in, the same lines out; one line too long costs one line (W36, W37c)."""

import itertools
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ostler.wire.lines import HEAD, LineSplitter, LineTooLong

KIB = 1024
MIB = 1024 * 1024


def split(text: bytes, cuts: list[int], limit: int) -> list[bytes | LineTooLong]:
    splitter = LineSplitter(limit)
    edges = [0, *sorted(cut % (len(text) + 1) for cut in cuts), len(text)]
    return [line for start, end in itertools.pairwise(edges) for line in splitter.feed(text[start:end])]


def test_w37c_split_at_every_byte_gives_the_same_lines() -> None:
    text = '{"a":"é😀"}\r\n\n  \r\n{"b":"\\ud83d"}\n{"c":1}\n'.encode()
    whole = LineSplitter().feed(text)
    assert whole == ['{"a":"é😀"}\r'.encode(), b'{"b":"\\ud83d"}', b'{"c":1}']
    for cut in range(len(text) + 1):
        assert split(text, [cut], 1000) == whole
    assert split(text, list(range(len(text))), 1000) == whole


@given(st.lists(st.binary(max_size=30)), st.lists(st.integers(0, 10_000)), st.integers(1, 40))
def test_w36_w37c_portions_never_matter_even_when_lines_are_dropped(
    lines: list[bytes], cuts: list[int], limit: int
) -> None:
    text = b"\n".join(lines) + b"\n"
    bare = text.split(b"\n")[:-1]
    expected = [
        LineTooLong(len(line), limit, line[:HEAD]) if len(line) > limit else line
        for line in bare
        if len(line) > limit or line.strip()
    ]
    assert split(text, cuts, limit) == expected


@pytest.mark.parametrize("size", [64 * KIB - 1, 64 * KIB, 64 * KIB + 1, MIB, 20 * MIB])
@pytest.mark.parametrize("portion", [4 * KIB + 1, 64 * KIB, 32 * MIB])
def test_w36_long_lines_pass(size: int, portion: int) -> None:
    line = b"x" * size
    text = b"first\n" + line + b"\nlast\n"
    splitter = LineSplitter()
    got = [out for at in range(0, len(text), portion) for out in splitter.feed(text[at : at + portion])]
    assert got == [b"first", line, b"last"]
    assert splitter.held == 0


@pytest.mark.parametrize(("excess", "dropped"), [(-1, False), (0, False), (1, True)])
@pytest.mark.parametrize("portion", [1, 7, 99, 100, 101, 1000])
def test_w36_the_limit_is_exact_and_the_stream_resynchronises(excess: int, dropped: bool, portion: int) -> None:
    line = b"y" * (100 + excess)
    text = b"a\n" + line + b"\nb\n"
    splitter = LineSplitter(100)
    got = [out for at in range(0, len(text), portion) for out in splitter.feed(text[at : at + portion])]
    assert got == [b"a", LineTooLong(101, 100, line) if dropped else line, b"b"]


def test_w36_a_dropped_line_says_what_it_measured_and_keeps_its_first_bytes() -> None:
    splitter = LineSplitter(1000)
    for _ in range(10):
        assert splitter.feed(b"0123456789" * 30) == []
        assert splitter.held <= 1000
    (dropped,) = splitter.feed(b"\n")
    assert isinstance(dropped, LineTooLong)
    assert (dropped.size, dropped.limit) == (3000, 1000)
    assert dropped.head == (b"0123456789" * 60)[:HEAD]
    assert str(dropped) == "a line of 3000 bytes is over the limit of 1000 bytes and was dropped"


def test_w36_an_endless_line_of_1_gib_stays_bounded() -> None:
    splitter = LineSplitter(MIB)
    chunk = b"z" * (64 * KIB)
    tracemalloc.start()
    try:
        for _ in range(16 * KIB):
            splitter.feed(chunk)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    (dropped,) = splitter.feed(b"\n")
    assert isinstance(dropped, LineTooLong)
    assert dropped.size == KIB * MIB
    assert peak < 3 * MIB


def test_w36_a_line_that_arrives_byte_by_byte_costs_its_bytes_and_no_more() -> None:
    splitter = LineSplitter(MIB)
    tracemalloc.start()
    try:
        for _ in range(MIB):
            splitter.feed(b"b")
        held = tracemalloc.get_traced_memory()[0]
    finally:
        tracemalloc.stop()
    assert splitter.held == MIB
    assert held < 2 * MIB


def test_w36_32_mib_in_portions_of_100_bytes_is_linear() -> None:
    """Quadratic work would copy five terabytes here: the suite's timeout is the assertion."""
    splitter = LineSplitter(32 * MIB)
    chunk = b"q" * 100
    fed = 0
    while fed + 100 <= 32 * MIB:
        splitter.feed(chunk)
        fed += 100
    (line,) = splitter.feed(b"\n")
    assert isinstance(line, bytes)
    assert len(line) == fed


def test_w37b_empty_portions_and_blank_lines_are_nothing() -> None:
    splitter = LineSplitter()
    assert splitter.feed(b"") == []
    assert splitter.feed(b"\n\r\n \t\n\n") == []
    assert splitter.feed(b"  ") == []
    assert splitter.feed(b"") == []
    assert splitter.feed(b"\nx\n") == [b"x"]
    assert splitter.held == 0


def test_a_limit_below_one_byte_is_refused() -> None:
    with pytest.raises(ValueError, match="at least 1 byte, not 0"):
        LineSplitter(0)
