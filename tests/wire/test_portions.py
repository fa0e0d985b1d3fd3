"""What was read at once and is looked at in portions: nothing is lost, and none has more than its share."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ostler.wire.portions import FREE, FREE_ALONE, LONGEST_REST, RESTS, LoopShare, Portions

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


COSTS = st.lists(st.floats(0.0001, LONGEST_REST / RESTS), min_size=1, max_size=200)


@given(COSTS, st.integers(1, 5))
def test_n31_those_who_send_much_have_their_share_of_the_time_together(costs: list[float], senders: int) -> None:
    share, now, used = LoopShare(), 0.0, 0.0
    due = [0.0] * senders
    for number, cost in enumerate(costs):
        now = max(now, due[number % senders]) + cost
        used += cost
        due[number % senders] = now + share.wait_after(cost, now)
    # One works while the others rest, so together they have one part in RESTS; one alone has one in RESTS and one more.
    burst = FREE + LONGEST_REST / RESTS
    assert used <= max(due) / (RESTS + (senders == 1)) + senders * burst


def test_n31_a_burst_is_free_and_much_is_not() -> None:
    share = LoopShare()
    assert share.wait_after(FREE / 2, 1.0) == 0.0
    assert share.wait_after(FREE, 1.1) == pytest.approx(1.5 * FREE * RESTS)
    assert share.wait_after(0.0, 1.1) > 0.0, "who comes now waits as long as the others"
    assert share.wait_after(0.0, 9.0) == 0.0
    assert share.wait_after(60.0, 9.0) == pytest.approx(LONGEST_REST)


def test_n31_who_is_alone_does_not_wait_and_who_is_not_waits_to_the_end() -> None:
    share = LoopShare()
    rest = share.wait_after(FREE, 1.0)
    assert share.wait_more(1.001, alone=False) == pytest.approx(rest - 0.001)
    share = LoopShare()
    assert share.wait_after(FREE, 1.0) > 0.0
    assert share.wait_more(1.001, alone=True) == 0.0
    assert share.wait_after(FREE_ALONE / 2, 1.002) == 0.0, "it may work longer before it looks again"
    assert share.wait_after(FREE_ALONE, 1.1) > 0.0
    assert share.wait_more(1.1, alone=False) > 0.0
    assert share.wait_after(FREE, 1.3) > 0.0, "now others are there, and it looks as often as usual"
    assert share.wait_more(1.3, alone=True) > 0.0, "they may only wait for a disk"
    assert share.wait_after(FREE, 9.0) > 0.0
    assert share.wait_more(9.0, alone=True) == 0.0, "they are gone"


def test_n31_one_long_piece_of_work_is_paused_for_in_any_case() -> None:
    share = LoopShare()
    rest = share.wait_after(10 * FREE, 1.0)
    assert share.wait_more(1.0, alone=True) == pytest.approx(rest)
    assert share.wait_after(FREE, 9.0) > 0.0
    assert share.wait_more(9.0, alone=True) == 0.0
