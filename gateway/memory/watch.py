"""Who is told how memory does: what a turn waited for, and what became of everything that was told. Must not wait.

Rules: `recalled` and a call that was lost are told on the loop, calls that were made by the provider's own thread.
"""

from enum import StrEnum
from typing import Protocol


class Recalled(StrEnum):
    """What came of asking a provider before a turn."""

    FOUND = "found"
    NOTHING = "nothing"
    FAILED = "failed"
    LATE = "late"
    SKIPPED = "skipped"
    """It was not asked: it never came up, or has not come back from an earlier question."""


class BackgroundResult(StrEnum):
    """What became of a call that nobody waits for."""

    DONE = "done"
    FAILED = "failed"
    """It raised, or its provider never came up."""
    LOST = "lost"
    """Too many others waited."""


class MemoryWatch(Protocol):
    """Counts."""

    def recalled(self, memory: str, outcome: Recalled, seconds: float) -> None:
        """A provider was asked what it knows, and its turn waited so long."""

    def told(self, memory: str, call: str, outcome: BackgroundResult, lag: float) -> None:
        """A call is over, so many seconds after what it tells of had happened."""


class NoMemoryWatch:
    """Nobody counts."""

    def recalled(self, memory: str, outcome: Recalled, seconds: float) -> None:
        """Nobody counts."""

    def told(self, memory: str, call: str, outcome: BackgroundResult, lag: float) -> None:
        """Nobody counts."""
