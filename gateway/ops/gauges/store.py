"""Counts writes of the store. Each series is written by one thread."""

from collections.abc import Sequence
from dataclasses import dataclass

from ostler.metrics.instruments import StoreInstruments


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
