"""Counts calls to memories. Each series is written by one thread: see the rules of `MemoryWatch`."""

from dataclasses import dataclass

from ostler.gateway.memory.watch import BackgroundResult, Recalled
from ostler.metrics.instruments import MemoryInstruments


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
