"""Counts what the pool, turns, the store and memory report: their observers, implemented by Prometheus instruments."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from ostler.gateway.memory.watch import BackgroundResult, Recalled
from ostler.gateway.model.outcome import TurnOutcome, TurnStatus
from ostler.gateway.turns.reports import TurnReport
from ostler.metrics.instruments import MemoryInstruments, PoolInstruments, StoreInstruments, TurnInstruments
from ostler.pool.core.values import Counted
from ostler.pool.keys import TransportKey
from ostler.pool.observer import Observer


@dataclass(frozen=True, slots=True)
class PoolGauges:
    """Implements the pool's `Observer` by Prometheus instruments."""

    into: PoolInstruments
    dropped_before: Counter[tuple[str, str]] = field(default_factory=Counter)
    """Messages dropped by processes that have ended; those of live processes are read at a scrape."""

    def claimed(self, key: TransportKey, warmth: str, miss: str, waited: float) -> None:
        self.into.claims.of(key.provider, key.model, warmth, miss).inc()
        self.into.claim_wait.of(key.provider, warmth).observe(waited)

    def refused(self, key: TransportKey, kind: str) -> None:
        self.into.refusals.of(key.provider, key.model, kind).inc()

    def started(self, provider: str, outcome: str, phase: str, seconds: float) -> None:
        self.into.starts.of(provider, outcome, phase).inc()
        self.into.start_seconds.of(provider, outcome).observe(seconds)

    def opened(self, provider: str, outcome: str, seconds: float) -> None:
        self.into.opens.of(provider, outcome).inc()
        self.into.open_seconds.of(provider, outcome).observe(seconds)

    def noted(self, provider: str, what: str, cause: str) -> None:
        into = self.into
        match what:
            case Counted.RETIRED.value:
                into.recycles.of(provider, cause).inc()
            case Counted.SLOT_DIED.value:
                into.deaths.of(provider).inc()
            case Counted.SEAT_LEAKED.value:
                into.leaks.of(provider).inc()
            case "fallback":
                into.fallbacks.of(provider, cause).inc()
            case Counted.START_FAILED.value | Counted.OPEN_FAILED.value:
                """Counted by `started` or `opened`, with its phase."""
            case _:
                into.notes.of(provider, what, cause).inc()

    def dropped(self, provider: str, kind: str, count: int) -> None:
        self.dropped_before[provider, kind] += count


class Observers:
    """Passes every call of an observer on to several observers."""

    def __init__(self, *each: Observer) -> None:
        self._each = each

    def claimed(self, key: TransportKey, warmth: str, miss: str, waited: float) -> None:
        for one in self._each:
            one.claimed(key, warmth, miss, waited)

    def refused(self, key: TransportKey, kind: str) -> None:
        for one in self._each:
            one.refused(key, kind)

    def started(self, provider: str, outcome: str, phase: str, seconds: float) -> None:
        for one in self._each:
            one.started(provider, outcome, phase, seconds)

    def opened(self, provider: str, outcome: str, seconds: float) -> None:
        for one in self._each:
            one.opened(provider, outcome, seconds)

    def noted(self, provider: str, what: str, cause: str) -> None:
        for one in self._each:
            one.noted(provider, what, cause)

    def dropped(self, provider: str, kind: str, count: int) -> None:
        for one in self._each:
            one.dropped(provider, kind, count)


OWN = "own"
NO_MISS = "none"
EXAMPLE = "response_id"
"""What an exemplar names: a response that took so long."""
SOMETIMES = frozenset({"first_tool", "first_token"})
"""Phases that not every turn has. They are recorded only if they happened: a zero would look like a fast one."""


@dataclass(frozen=True, slots=True)
class TurnGauges:
    """Implements `TurnObserver` by Prometheus instruments."""

    turns: TurnInstruments
    pool: PoolInstruments

    def turn_ended(self, report: TurnReport) -> None:
        key, timings, outcome = report.key, report.timings, report.outcome
        provider, transport = key.provider, timings.transport
        self.turns.turns.of(provider, transport, outcome.status.value).inc()
        if outcome.status is TurnStatus.FAILED:
            self.turns.failures.of(provider, outcome.code).inc()
        if report.left_out:
            self.turns.cut.of(provider).inc()
        self._count_tokens(key, outcome)
        if not timings.reached:
            return
        if timings.warmth == OWN:
            # The session had its seat already, so the pool saw no claim.
            self.pool.claims.of(provider, key.model, OWN, NO_MISS).inc()
        phases, example = self.turns.phases, {EXAMPLE: report.turn_id}
        for phase, seconds in timings.breakdown().items():
            if seconds or phase not in SOMETIMES:
                phases.of(provider, transport, phase).observe(seconds, example)

    def _count_tokens(self, key: TransportKey, outcome: TurnOutcome) -> None:
        usage = outcome.usage
        if usage is None:
            return
        for direction, tokens in (("input", usage.input_tokens), ("output", usage.output_tokens)):
            if tokens:
                self.turns.tokens.of(key.provider, key.model, direction).inc(tokens)


@dataclass(frozen=True, slots=True)
class MemoryGauges:
    """Implements `MemoryWatch` by Prometheus instruments."""

    into: MemoryInstruments

    def recalled(self, memory: str, outcome: Recalled, seconds: float) -> None:
        self.into.prefetch.of(memory, outcome.value).observe(seconds)

    def told(self, memory: str, call: str, outcome: BackgroundResult, lag: float) -> None:
        self.into.calls.of(memory, call, outcome.value).inc()
        if outcome is not BackgroundResult.LOST:
            self.into.lag.of(memory).observe(lag)


@dataclass(frozen=True, slots=True)
class StoreGauges:
    """Implements `StoreWatch` by Prometheus instruments."""

    into: StoreInstruments

    def stored(self, waits: Sequence[float]) -> None:
        self.into.batch.of().observe(len(waits))
        seconds = self.into.seconds.of()
        for wait in waits:
            seconds.observe(wait)

    def failed(self, kind: str, count: int) -> None:
        self.into.errors.of(kind).inc(count)
