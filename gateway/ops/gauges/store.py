"""The watch over the store that counts. Each number has one thread that tells of it."""

from collections.abc import Sequence
from dataclasses import dataclass

from ostler.metrics.instruments import StoreInstruments


@dataclass(frozen=True, slots=True)
class StoreGauges:
    """Implements `StoreWatch`."""

    into: StoreInstruments

    def stored(self, waits: Sequence[float]) -> None:
        self.into.batch.of().observe(len(waits))
        seconds = self.into.seconds.of()
        for wait in waits:
            seconds.observe(wait)

    def failed(self, kind: str, count: int) -> None:
        self.into.errors.of(kind).add(count)
