"""Headlines of the benches: what counts as fallen, and charts that are what they say."""

import importlib
import sys
from dataclasses import asdict
from pathlib import Path
from subprocess import run
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from bench.__main__ import names
from bench._table import BEGIN, END, NoPlace, put, table
from bench.headlines import SLACK, Headline, chart, fallen, renewed
from bench.measure import Report

ONE = Headline("First text & more", "ms", (("ours", 8.0), ("<theirs>", 800.0)), 100.0, against="<theirs>")


@pytest.mark.parametrize(("was", "worse"), [(100.0, False), (133.0, False), (134.0, True), (10.0, False)])
def test_a_headline_falls_by_more_than_the_slack(was: float, worse: bool) -> None:
    assert bool(fallen({"first": [ONE]}, {"first": {ONE.name: was}})) is worse
    assert SLACK == 0.25


def test_a_new_headline_has_nothing_to_fall_from() -> None:
    assert fallen({"first": [ONE]}, {"another": {"another": 1.0}}) == []


def test_a_headline_that_was_not_measured_has_fallen() -> None:
    before = {"first": {ONE.name: 90.0, "gone": 3.0}, "second": {"gone too": 4.0}, "did not run": {"unknown": 5.0}}
    told = fallen({"first": [ONE], "second": []}, before)
    assert told == ["first, gone: not measured, was 3 x", "second, gone too: not measured, was 4 x"]


def test_without_a_baseline_a_check_does_not_pass() -> None:
    (told,) = fallen({"first": [ONE]}, {})
    assert "--keep" in told


def test_a_new_baseline_keeps_the_benches_that_did_not_run_and_forgets_those_that_are_gone() -> None:
    before = {"first": {"old name": 3.0}, "second": {"other": 4.0}, "removed": {"nobody's": 5.0}}
    now = renewed({"first": [ONE]}, before, ["first", "second"])
    assert now == {"first": {ONE.name: 100.0}, "second": {"other": 4.0}}


def test_a_chart_is_sound_and_its_bars_are_as_long_as_their_figures() -> None:
    root = ET.fromstring(chart(ONE))
    bars = [float(rect.attrib["width"]) for rect in root.iter("{http://www.w3.org/2000/svg}rect")]
    assert bars[1] / bars[0] == pytest.approx(100, rel=0.05)
    assert root.attrib["aria-label"] == "First text & more. ours: 8 ms; <theirs>: 800 ms"
    assert ONE.slug == "first-text-more"


KEPT: dict[str, Any] = {
    "command": "python -m bench",
    "quick": False,
    "machine": {"cpu": "CPU", "cores": "2", "kernel": "Linux 6", "python": "CPython 3.11", "load": "0.1 0.2 0.3"},
    "benches": {"one": {"headlines": [asdict(ONE)]}},
}


def test_the_table_says_what_the_run_found_and_how_to_make_it_again() -> None:
    about, _, *lines = table(KEPT).splitlines()
    assert about.startswith("`python -m bench` on 2 cores of CPU")
    assert "quick" not in about
    assert lines[-1] == "| First text & more (ms) | ours **8.00** | <theirs> 800 (100 ×) | 100 × <theirs> (one round) |"
    assert "busy" not in about
    assert "quick" in table({**KEPT, "quick": True})
    assert "busy" in table({**KEPT, "machine": {**KEPT["machine"], "load": "5.0 1.0 1.0"}})
    assert "minute before" in table({**KEPT, "machine": {**KEPT["machine"], "load": "1.3 1.0 1.0"}})


def test_what_is_better_the_more_there_is_of_it_is_so_many_times_more() -> None:
    many = Headline(
        "turns", "per s", (("ours", 80.0), ("theirs", 20.0), ("floor", 160.0)), 4.1, 0.05, "theirs", more=True
    )
    said = table({**KEPT, "benches": {"one": {"headlines": [asdict(many)]}}}).splitlines()[-1]
    assert said == "| turns (per s) | ours **80.0** | theirs 20.0 (4.00 ×) · floor 160 (0.500 ×) | 4.10 × theirs ±5% |"


def test_the_table_is_written_between_its_marks_and_nothing_else_changes(tmp_path: Path) -> None:
    file = tmp_path / "README.md"
    file.write_text(f"before\n{BEGIN}\nold\n{END}\nafter\n")
    put(file, KEPT)
    assert file.read_text() == f"before\n{BEGIN}\n{table(KEPT)}\n{END}\nafter\n"
    file.write_text("no marks")
    with pytest.raises(NoPlace):
        put(file, KEPT)


@pytest.mark.parametrize(("more", "ratio"), [(False, 4.0), (True, 0.25)])
def test_a_comparison_pairs_the_rounds(more: bool, ratio: float) -> None:
    report = Report("x")
    report.compare("what", "ms", {"ours": [1.0, 2.0, 3.0], "theirs": [4.0, 8.0, 12.0]}, against="theirs", more=more)
    (headline,) = report.headlines
    assert (headline.ratio, headline.spread) == (ratio, 0.0)
    assert headline.bars == (("ours", 2.0), ("theirs", 8.0))
    assert [row.name for row in report.rows] == ["what: ours", "what: theirs"]


def test_one_round_has_no_spread_and_says_so() -> None:
    report = Report("x")
    report.compare("what", "ms", {"ours": [1.0], "theirs": [4.0]}, against="theirs")
    (headline,) = report.headlines
    assert headline.spread is None
    assert "one round" in str(headline)


def test_without_pairs_the_medians_are_compared() -> None:
    report = Report("x")
    report.compare("what", "ms", {"ours": [1.0, 2.0, 3.0], "theirs": [4.0, 6.0]}, against="theirs")
    assert report.headlines[0].ratio == 2.5


@pytest.mark.parametrize("word", ["--keep", "--check"])
def test_a_quick_run_is_no_baseline_and_is_held_to_none(word: str) -> None:
    done = run([sys.executable, "-m", "bench", "--quick", word], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "no baseline" in done.stderr


def test_every_bench_can_be_run() -> None:
    assert [name for name in names() if not callable(vars(importlib.import_module(f"bench.{name}")).get("run"))] == []
