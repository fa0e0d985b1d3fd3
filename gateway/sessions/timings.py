"""Where the time of a turn went: measured for that turn alone, logged once when it ends.

Rules: milliseconds, never below zero; the sum is not above the turn's wall time. `spawn` and `session_new` are what
this very turn waited for, so a warm seat shows zeros.
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from ostler.pool.lease import Waited

log = logging.getLogger("ostler.turns")


@dataclass
class Timings:
    """The clock of one turn."""

    clock: Callable[[], float]
    waited: Waited = field(default_factory=Waited)
    bridge: float = 0.0
    pooled: bool = True
    warmth: str = "own"
    prompted: float | None = None
    tool: float | None = None

    def prompt(self) -> None:
        """The prompt leaves now."""
        self.prompted = self.clock()

    def tool_called(self) -> None:
        """The agent calls a tool; only the first one counts."""
        if self.tool is None:
            self.tool = self.clock()

    def report(self, session_id: str, turn_id: str) -> Mapping[str, object]:
        """The one record of this turn, logged and handed back."""
        now = self.clock()
        prompted = now if self.prompted is None else self.prompted
        first_tool = 0.0 if self.tool is None else self.tool - prompted
        facts: dict[str, object] = {
            "spawn": milliseconds(self.waited.spawn),
            "bridge": milliseconds(self.bridge),
            "session_new": milliseconds(self.waited.session_new),
            "first_tool": milliseconds(first_tool),
            "generation": milliseconds(now - prompted - first_tool),
            "transport": "pool" if self.pooled else "agent",
            "transport_from_pool": self.pooled,
            "warmth": self.warmth,
            "session_id": session_id,
            "turn_id": turn_id,
        }
        words = " ".join(f"{name}={value}" for name, value in facts.items())
        log.info("cold_start_breakdown %s", words, extra={"event": "cold_start_breakdown", "facts": facts})
        return facts


def milliseconds(seconds: float) -> float:
    """With microseconds behind the point, and never negative."""
    return max(0.0, round(seconds * 1000, 3))
