"""The port through which memory reports how long turns waited and how calls ended. Its methods must not block.

Rules: `recalled` and lost calls are reported on the event loop; calls that were made, by the provider's own thread.
"""

from enum import StrEnum
from typing import Protocol


class Recalled(StrEnum):
    """The result of asking a provider before a turn."""

    FOUND = "found"
    NOTHING = "nothing"
    FAILED = "failed"
    LATE = "late"
    SKIPPED = "skipped"
    """Not asked: the provider failed to initialize, or has not returned from an earlier question."""


class BackgroundResult(StrEnum):
    """The result of a call that no turn waits for."""

    DONE = "done"
    FAILED = "failed"
    """The call raised, or its provider failed to initialize."""
    LOST = "lost"
    """Too many other calls were queued."""


class MemoryWatch(Protocol):
    """Receives results and durations of provider calls, for metrics."""

    def recalled(self, memory: str, outcome: Recalled, seconds: float) -> None:
        """A provider was asked before a turn, which waited `seconds` for it."""

    def told(self, memory: str, call: str, outcome: BackgroundResult, lag: float) -> None:
        """A call is over, `lag` seconds after the event that it reports."""


class NoMemoryWatch:
    """A `MemoryWatch` that does nothing."""

    def recalled(self, memory: str, outcome: Recalled, seconds: float) -> None:
        pass

    def told(self, memory: str, call: str, outcome: BackgroundResult, lag: float) -> None:
        pass
