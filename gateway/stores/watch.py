"""Who is told how writing goes. Must not wait.

Rules: called by the thread that writes; only `StoreBusy`, which never gets there, by the thread that was refused."""

from collections.abc import Sequence
from typing import Protocol


class StoreWatch(Protocol):
    """Counts."""

    def stored(self, waits: Sequence[float]) -> None:
        """Writes that became durable by one sync, each with the seconds since it was handed over."""

    def failed(self, kind: str, count: int) -> None:
        """Writes that were not stored, and why."""


class NoStoreWatch:
    """Nobody counts."""

    def stored(self, waits: Sequence[float]) -> None:
        """Nobody counts."""

    def failed(self, kind: str, count: int) -> None:
        """Nobody counts."""
