"""Names, labels and numbers: what a family promises, and what becomes of words that nobody announced."""

import re
from collections.abc import Callable

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from ostler.metrics.family import show
from ostler.metrics.instruments import Instruments
from ostler.metrics.registry import MOST, PIECE, MetricRegistry
from ostler.metrics.words import LONGEST, OTHER, LabelWords
from tests.support.scrape import read


def registry() -> MetricRegistry:
    return MetricRegistry(CollectorRegistry())


def test_every_instrument_says_what_it_is_and_has_bounded_labels() -> None:
    made = Instruments(registry()).registry
    names = [family.name for family in made.families]
    assert len(set(names)) == len(names) > 45
    allowed = {
        *("provider", "model", "place", "warmth", "reason", "cause", "outcome", "phase", "state", "kind", "what"),
        *("transport", "code", "direction", "method", "route", "status", "version", "python"),
        *("memory", "call"),
    }
    for family in made.families:
        assert re.fullmatch(r"ostler(_[a-z]+)+", family.name)
        assert (family.kind == "counter") is family.name.endswith("_total")
        assert family.text.endswith(".")
        assert {label.name for label in family.labels} <= allowed


def test_a_word_nobody_announced_has_a_place_while_there_is_room_and_then_is_other() -> None:
    words = LabelWords(2)
    words.announce(["known"])
    assert [words.word(each) for each in ("a", "b", "c", "known", "a")] == ["a", "b", OTHER, "known", "a"]
    assert LabelWords(2).word("x" * (LONGEST + 1)) == OTHER
    assert LabelWords(2).word("two\nlines") == OTHER


def test_clients_cannot_make_series_without_end() -> None:
    instruments = Instruments(registry())
    for number in range(10 * MOST):
        instruments.pool.claims.of("demo", f"invented-{number}", "cold", "none").add()
    children = dict(instruments.pool.claims.children())
    assert len(children) == MOST + 1
    assert sum(child.value for child in children.values()) == 10 * MOST


def test_a_level_of_what_is_gone_is_gone() -> None:
    instruments = Instruments(registry())
    show(instruments.pool.processes, {("demo", "ready"): 2, ("gemini", "ready"): 1})
    show(instruments.pool.processes, {("demo", "ready"): 3})
    assert {values: child.value for values, child in instruments.pool.processes.children()} == {("demo", "ready"): 3}


def test_levels_that_share_a_word_are_added_up() -> None:
    instruments = Instruments(registry())
    long = ("x" * 99, "y" * 99)
    show(instruments.pool.waiting, {("demo", name): 2.0 for name in long})
    assert {values: child.value for values, child in instruments.pool.waiting.children()} == {("demo", OTHER): 4}


def test_a_registry_of_somebody_else_has_the_same_samples() -> None:
    registry = CollectorRegistry()
    made = MetricRegistry(registry)
    instruments = Instruments(made)
    instruments.pool.claims.of("demo", 'a "quoted"\\ name', "cold", "none").add(3)
    instruments.turns.phases.of("demo", "pool", "total").observe(0.3, "resp_1")
    instruments.bridge.seconds.of().raise_to(2, 0.5)
    ours = read("".join(made.pieces(openmetrics=False)))
    theirs = read(generate_latest(registry).decode())
    assert ours.samples == theirs.samples
    assert ours.kinds == theirs.kinds
    assert ours.total("ostler_pool_claims_total", model='a "quoted"\\ name') == 3


def test_exemplars_name_the_response_and_stand_in_openmetrics_only() -> None:
    made = registry()
    instruments = Instruments(made)
    instruments.turns.phases.of("demo", "pool", "total").observe(0.3, "resp_1")
    plain, modern = "".join(made.pieces(openmetrics=False)), "".join(made.pieces(openmetrics=True))
    assert "resp_1" not in plain
    (family,) = [each for each in text_string_to_metric_families(modern) if each.name == "ostler_turn_phase_seconds"]
    (sample,) = [sample for sample in family.samples if sample.exemplar is not None]
    assert (sample.labels["le"], sample.exemplar.labels) == ("0.5", {"response_id": "resp_1"})


def test_what_is_written_out_comes_in_small_pieces() -> None:
    made = registry()
    instruments = Instruments(made)
    for number in range(MOST):
        for phase in ("spawn", "total"):
            instruments.turns.phases.of(f"p{number}", "pool", phase).observe(1.0)
    pieces = list(made.pieces(openmetrics=False))
    assert max(piece.count("\n") for piece in pieces) < PIECE + 60


@pytest.mark.parametrize(
    "declare",
    [
        lambda made: made.counter("ostler_claims", "Does not end in total."),
        lambda made: made.gauge("ostler_x", "Again."),
        lambda made: made.gauge("ostler_y", "A level.", "kind").of("a", "b"),
    ],
)
def test_a_wrong_declaration_is_refused(declare: Callable[[MetricRegistry], object]) -> None:
    made = registry()
    made.gauge("ostler_x", "A level.", "kind")
    with pytest.raises(ValueError, match="ostler_"):
        declare(made)
