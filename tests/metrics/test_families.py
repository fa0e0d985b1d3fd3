"""Names, labels and numbers: what a family promises, and what becomes of words that nobody announced."""

import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.openmetrics.parser import text_string_to_metric_families

from ostler.gateway.ops.gauges.observers import EXAMPLE
from ostler.metrics.family import Family, Shown
from ostler.metrics.instruments import Instruments
from ostler.metrics.registry import MOST, MetricRegistry
from ostler.metrics.words import LONGEST, OTHER, LabelWords
from tests.support.scrape import read


def registry() -> MetricRegistry:
    return MetricRegistry(CollectorRegistry())


def families(instruments: Instruments) -> list[Family[Any] | Shown]:
    """All that the groups declare."""
    return [
        family for group in vars(instruments).values() for family in vars(group).values() if hasattr(family, "named")
    ]


def test_every_instrument_says_what_it_is_and_has_bounded_labels() -> None:
    made = families(Instruments(registry()))
    names = [family.named.name for family in made]
    assert len(set(names)) == len(names) > 45
    allowed = {
        *("provider", "model", "place", "warmth", "reason", "cause", "outcome", "phase", "state", "kind", "what"),
        *("transport", "code", "direction", "method", "route", "status", "version", "python"),
        *("memory", "call"),
    }
    for family in made:
        assert re.fullmatch(r"ostler(_[a-z]+)+", family.named.name)
        assert family.named.text.endswith(".")
        assert set(family.named.labels) <= allowed


def test_a_counter_and_nothing_else_is_named_total() -> None:
    host = CollectorRegistry()
    Instruments(MetricRegistry(host))
    kinds = read(generate_latest(host).decode()).kinds
    heads = re.findall(r"^# TYPE (\S+) (\S+)$", generate_latest(host).decode(), re.MULTILINE)
    assert len(heads) == len(kinds) > 45
    assert all((kind == "counter") is name.endswith("_total") for name, kind in heads)


def test_a_word_nobody_announced_has_a_place_while_there_is_room_and_then_is_other() -> None:
    words = LabelWords(2)
    words.announce(["known"])
    assert [words.word(each) for each in ("a", "b", "c", "known", "a")] == ["a", "b", OTHER, "known", "a"]
    assert LabelWords(2).word("x" * (LONGEST + 1)) == OTHER
    assert LabelWords(2).word("two\nlines") == OTHER


def test_clients_cannot_make_series_without_end() -> None:
    instruments = Instruments(made := registry())
    for number in range(10 * MOST):
        instruments.pool.claims.of("demo", f"invented-{number}", "cold", "none").inc()
    scraped = read(made.exposition(openmetrics=False).decode())
    assert sum(name == "ostler_pool_claims_total" for name, _ in scraped.samples) == MOST + 1
    assert scraped.total("ostler_pool_claims_total") == 10 * MOST


def levels(shown: Shown) -> dict[tuple[str, ...], float]:
    (metric,) = shown.collect()
    return {tuple(sample.labels.values()): sample.value for sample in metric.samples}


def test_a_level_of_what_is_gone_is_gone() -> None:
    processes = Instruments(registry()).pool.processes
    processes.show({("demo", "ready"): 2, ("gemini", "ready"): 1})
    processes.show({("demo", "ready"): 3})
    assert levels(processes) == {("demo", "ready"): 3}


def test_levels_that_share_a_word_are_added_up() -> None:
    waiting = Instruments(registry()).pool.waiting
    waiting.show({("demo", name): 2.0 for name in ("x" * 99, "y" * 99)})
    assert levels(waiting) == {("demo", OTHER): 4}


def test_a_total_never_goes_down_and_never_goes_away() -> None:
    lost = Instruments(registry()).bridge.lost
    for totals in ({("ended",): 3, ("silent",): 1}, {("ended",): 2}, {("ended",): 4}):
        lost.raise_to(totals)
        assert levels(lost) in ({("ended",): 3, ("silent",): 1}, {("ended",): 4, ("silent",): 1})
    assert levels(lost) == {("ended",): 4, ("silent",): 1}


def test_a_registry_of_somebody_else_has_the_same_samples() -> None:
    registry = CollectorRegistry()
    made = MetricRegistry(registry)
    instruments = Instruments(made)
    instruments.pool.claims.of("demo", 'a "quoted"\\ name', "cold", "none").inc(3)
    instruments.turns.phases.of("demo", "pool", "total").observe(0.3, {EXAMPLE: "resp_1"})
    instruments.bridge.seconds.sum_up(2, 0.5)
    ours = read(made.exposition(openmetrics=False).decode())
    theirs = read(generate_latest(registry).decode())
    assert ours.samples == theirs.samples
    assert ours.kinds == theirs.kinds
    assert ours.total("ostler_pool_claims_total", model='a "quoted"\\ name') == 3


def test_exemplars_name_the_response_and_stand_in_openmetrics_only() -> None:
    made = registry()
    instruments = Instruments(made)
    instruments.turns.phases.of("demo", "pool", "total").observe(0.3, {EXAMPLE: "resp_1"})
    plain, modern = (made.exposition(openmetrics=modern).decode() for modern in (False, True))
    assert "resp_1" not in plain
    (family,) = [each for each in text_string_to_metric_families(modern) if each.name == "ostler_turn_phase_seconds"]
    (sample,) = [sample for sample in family.samples if sample.exemplar is not None]
    assert (sample.labels["le"], sample.exemplar.labels) == ("0.5", {"response_id": "resp_1"})


def test_what_is_written_out_says_no_times_of_creation() -> None:
    made = registry()
    Instruments(made).turns.phases.of("demo", "pool", "total").observe(1.0)
    for openmetrics in (False, True):
        assert b"_created" not in made.exposition(openmetrics=openmetrics)


def test_a_scrape_in_a_thread_beside_a_loop_that_counts_loses_nothing() -> None:
    made = registry()
    claims = Instruments(made).pool.claims
    with ThreadPoolExecutor(1) as executor:
        for number in range(200):
            scraped = executor.submit(made.exposition, openmetrics=True)
            claims.of("demo", f"model-{number}", "cold", "none").inc()
            read(scraped.result().decode(), openmetrics=True)
    assert read(made.exposition(openmetrics=False).decode()).total("ostler_pool_claims_total") == 200


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
