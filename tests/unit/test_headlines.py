"""Headlines of the benches: what counts as fallen, and charts that are what they say."""

from xml.etree import ElementTree as ET

import pytest

from bench.headlines import SLACK, Headline, chart, fallen

ONE = Headline("First text & more", "ms", (("ours", 8.0), ("<theirs>", 800.0)), 100.0)


@pytest.mark.parametrize(("was", "worse"), [(100.0, False), (133.0, False), (134.0, True), (10.0, False)])
def test_a_headline_falls_by_more_than_the_slack(was: float, worse: bool) -> None:
    assert bool(fallen([ONE], {ONE.name: was})) is worse
    assert SLACK == 0.25


def test_a_new_headline_has_nothing_to_fall_from() -> None:
    assert fallen([ONE], {"another": 1.0}) == []


def test_without_a_baseline_a_check_does_not_pass() -> None:
    (told,) = fallen([ONE], {})
    assert "--keep" in told


def test_a_chart_is_sound_and_its_bars_are_as_long_as_their_figures() -> None:
    root = ET.fromstring(chart(ONE))
    bars = [float(rect.attrib["width"]) for rect in root.iter("{http://www.w3.org/2000/svg}rect")]
    assert bars[1] / bars[0] == pytest.approx(100, rel=0.05)
    assert root.attrib["aria-label"] == "First text & more. ours: 8 ms; <theirs>: 800 ms"
    assert ONE.slug == "first-text-more"
