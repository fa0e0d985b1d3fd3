"""The last line of a long run, and its exit code."""

import pytest

from tests.support.tally import LINES, Tally, begin


@pytest.fixture
def tally() -> Tally:
    return Tally("storm", 42, 0.0)


def test_the_last_line_names_the_seed_and_the_counts_those_of_nought_too(tally: Tally) -> None:
    tally.counts.update({"sent": 12_345, "quiet": 7})
    assert tally.last_line(("sent", "lost"), 61.4) == "storm: 0 breaks in 61 s with seed 42: 12,345 sent; 0 lost"


def test_a_run_without_a_break_ends_well(tally: Tally, capsys: pytest.CaptureFixture[str]) -> None:
    tally.expect(True, "all is well")
    assert tally.close("sent") == 0
    assert "BROKEN" not in capsys.readouterr().out


def test_a_break_is_told_once_with_how_often_and_the_run_fails(
    tally: Tally, capsys: pytest.CaptureFixture[str]
) -> None:
    for _ in range(3):
        tally.expect(False, "a turn had two ends")
    assert tally.close() == 1
    said = capsys.readouterr().out.splitlines()
    assert said[-2] == "BROKEN  a turn had two ends  (x 3)"
    assert said[-1].startswith("storm: 3 breaks")


def test_more_breaks_than_anybody_reads_are_counted(tally: Tally, capsys: pytest.CaptureFixture[str]) -> None:
    for number in range(LINES + 5):
        tally.expect(False, f"break {number}")
    assert tally.close() == 1
    assert "BROKEN  and 5 others" in capsys.readouterr().out


def test_what_never_happened_is_a_break(tally: Tally) -> None:
    tally.counts["kills"] = 1
    tally.expect_some(("kills", "stops"))
    assert tally.broken == ["it never happened: stops"]


def test_what_was_left_out_is_told_with_its_reason(tally: Tally, capsys: pytest.CaptureFixture[str]) -> None:
    tally.left_out["disk full"] = "no disk can be mounted here"
    assert tally.close() == 0
    said = capsys.readouterr().out.splitlines()
    assert said[0] == "LEFT OUT  disk full: no disk can be mounted here"
    assert said[-1].endswith("; without disk full")


def test_the_first_line_names_the_seed_drawn_or_given(capsys: pytest.CaptureFixture[str]) -> None:
    given, drawn = begin("storm", 7, "9 s"), begin("storm", None, "9 s")
    assert given.seed == 7
    assert capsys.readouterr().out.splitlines() == ["storm: 9 s, seed 7", f"storm: 9 s, seed {drawn.seed}"]
