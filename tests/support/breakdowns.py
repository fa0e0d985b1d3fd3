"""The breakdown records of a gateway in the test's own process, with the moment each was written, and how late the
loop was meanwhile: no measurement of ours can be better than that."""

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

from prometheus_client import CollectorRegistry

from ostler.gateway.config.settings import Settings
from ostler.gateway.model.model_names import Models
from ostler.gateway.ops.gauges.gauges import Gauges
from ostler.gateway.ops.gauges.lag import LoopLag
from ostler.gateway.ops.gauges.observers import TurnGauges
from ostler.gateway.turns.reports import TurnReport
from ostler.gateway.turns.timings import EVENT, TurnTimings

NAMES = ("queue", "store", "spawn", "session_new", "bridge", "first_tool", "generation")


@dataclass
class Written:
    """One record. Milliseconds, but for `at`: seconds on the monotonic clock."""

    at: float
    spans: dict[str, float]
    transport: str
    from_pool: bool
    warmth: str
    total: float

    @property
    def sum(self) -> float:
        return sum(self.spans.values())


@dataclass
class Breakdowns(logging.Handler):
    """By turn id."""

    found: dict[str, list[Written]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        super().__init__()

    __hash__ = logging.Handler.__hash__

    def emit(self, record: logging.LogRecord) -> None:
        if record.getMessage() != EVENT:
            return
        facts = vars(record)
        spans = {name: facts[name] for name in NAMES}
        told = (facts["transport"], facts["transport_from_pool"], facts["warmth"], facts["total"])
        self.found.setdefault(facts["turn_id"], []).append(Written(time.monotonic(), spans, *told))

    def of(self, turn_id: str) -> Written:
        """The only one."""
        (written,) = self.found[turn_id]
        return written


@contextmanager
def breakdowns() -> Iterator[Breakdowns]:
    """Everything that is written meanwhile."""
    log, handler = logging.getLogger("ostler.turns"), Breakdowns()
    before = log.level
    log.addHandler(handler)
    log.setLevel(logging.DEBUG)
    try:
        yield handler
    finally:
        log.removeHandler(handler)
        log.setLevel(before)


@dataclass(frozen=True)
class Marked(TurnGauges):
    """Counts, and keeps the moments of every turn."""

    kept: dict[str, TurnTimings]

    def turn_ended(self, report: TurnReport) -> None:
        super().turn_ended(report)
        self.kept[report.turn_id] = report.timings


@dataclass
class Moments:
    """Of every turn, by its id: `make` is what makes the gauges of its gateway."""

    kept: dict[str, TurnTimings] = field(default_factory=dict)

    def make(self, registry: CollectorRegistry, settings: Settings, models: Models) -> Gauges:
        made = Gauges.open(registry, settings, models)
        marked = Marked(made.instruments.turns, made.instruments.pool, self.kept)
        return replace(made, turns=marked)

    def claimed(self, turn_id: str) -> float:
        """When the pool was asked for the seat: the loop comes to that some time after the question is stored, later
        the busier the machine is, and no span has that time."""
        one = self.kept[turn_id]
        assert one.seated is not None
        return one.seated - one.waited.total

    def between(self, turn_id: str) -> float:
        """Seconds that are in no span: from the stored question to the claim, from the seat to the prompt."""
        one = self.kept[turn_id]
        assert one.stored is not None
        assert one.seated is not None
        assert one.prompted is not None
        return self.claimed(turn_id) - one.stored + one.prompted - one.seated - one.bridge


@dataclass
class Worst:
    """Keeps the largest."""

    most: float = 0.0

    def observe(self, value: float) -> None:
        self.most = max(self.most, value)


@contextmanager
def lateness(every: float = 0.004) -> Iterator[Worst]:
    """How late the loop came, at worst."""
    worst = Worst()
    lag = LoopLag(worst.observe, every)
    lag.start()
    try:
        yield worst
    finally:
        lag.stop()
