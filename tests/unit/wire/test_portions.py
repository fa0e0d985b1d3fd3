"""What was read at once and is looked at in portions: nothing is lost, and none has more than its share."""

from hypothesis import given
from hypothesis import strategies as st

from ostler.wire.portions import Portions

READS = st.lists(st.lists(st.sampled_from([b"\n", b"a", b"bcd\n", b"e" * 50]), max_size=40).map(b"".join))


@given(READS, st.integers(1, 5), st.integers(1, 60))
def test_n31_portions_are_bounded_in_lines_and_bytes_and_joined_they_are_what_came(
    reads: list[bytes], lines: int, size: int
) -> None:
    portions = Portions(lines=lines, size=size)
    for read in reads:
        portions.put(read)
    taken = list(iter(portions.take, b""))
    assert b"".join(taken) == b"".join(reads)
    assert all(0 < len(each) <= size and each.count(b"\n") <= lines for each in taken)
    assert portions.held == 0


def test_n31_the_ordinary_read_is_one_portion() -> None:
    portions = Portions(lines=2, size=10)
    assert portions.fits(b"a\nb\n")
    assert not portions.fits(b"a\nb\nc\n")
    assert not portions.fits(b"x" * 11)
    portions.put(b"before")
    assert not portions.fits(b"a\n"), "it would overtake what waits"
    portions.clear()
    assert portions.fits(b"a\n")
