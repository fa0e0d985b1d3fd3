"""Counts what the pool does."""

from collections import Counter
from dataclasses import dataclass, field

from ostler.metrics.instruments import PoolInstruments
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
