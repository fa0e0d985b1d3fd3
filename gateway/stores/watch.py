"""The port through which a store reports writes. Its methods must not block.

Rules: the writer thread calls it. Exception: `StoreBusy` is reported by the thread that was refused, because the job
never reaches the writer.
"""

from collections.abc import Sequence
from typing import Protocol


class StoreWatch(Protocol):
    """Receives counts and waits of writes, for metrics."""

    def stored(self, waits: Sequence[float]) -> None:
        """Writes that one sync made durable; for each, the seconds from its submission."""

    def failed(self, kind: str, count: int) -> None:
        """`count` writes were not stored; `kind` is the name of the error class."""


class NoStoreWatch:
    """A `StoreWatch` that does nothing."""

    def stored(self, waits: Sequence[float]) -> None:
        pass

    def failed(self, kind: str, count: int) -> None:
        pass
