"""Where the time of a turn went: measured for that turn alone, logged once when it ends.

Rules:
- The turn itself marks moments as they come. Spans are the distances between marks, so they cannot overlap and their
  sum is not above the turn's wall time. Turns share nothing here.
- `spawn` and `session_new` are what this very turn waited for, so a warm seat shows zeros. `first_tool` runs from the
  prompt to the first tool call, 0 if there was none; `generation` is the rest of the answer.
- A turn that never reached an agent logs no record. One that waited for a start or for a session to be opened is logged
  at info, every other one at debug: there are as many of those as there are turns.
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import structlog

from ostler.pool.lease import Waited

records = logging.getLogger("ostler.turns")
# Wrapped here and not by `structlog.configure`, which would apply to the whole process: an embedding host has its own.
log: structlog.stdlib.BoundLogger = structlog.wrap_logger(
    records, processors=[structlog.stdlib.render_to_log_kwargs], wrapper_class=structlog.stdlib.BoundLogger
)
EVENT = "cold_start_breakdown"


@dataclass
class TurnTimings:
    """The time marks of one turn."""

    clock: Callable[[], float]
    waited: Waited = field(default_factory=Waited)
    bridge: float = 0.0
    pooled: bool = True
    warmth: str = "own"
    first: bool = False
    """Whether the session was empty before this turn."""
    asked: float = 0.0
    """When the request became a turn."""
    began: float | None = None
    """When the session's earlier turns were over."""
    stored: float | None = None
    """When the question was durable."""
    seated: float | None = None
    """When the turn had its seat."""
    prompted: float | None = None
    tool: float | None = None
    spoke: float | None = None
    ended: float | None = None

    def __post_init__(self) -> None:
        self.asked = self.clock()

    @property
    def reached(self) -> bool:
        """Whether an agent was prompted."""
        return self.prompted is not None

    def begin(self) -> None:
        """Mark that the session's earlier turns are over."""
        self.began = self.clock()

    def store(self) -> None:
        """Mark that the question is durable."""
        self.stored = self.clock()

    def sit(self) -> None:
        """Mark that the turn has its seat."""
        self.seated = self.clock()

    def prompt(self) -> None:
        """Mark that the prompt is being sent."""
        self.prompted = self.clock()

    def tool_called(self) -> None:
        """Mark a tool call of the agent; only the first one counts."""
        if self.tool is None:
            self.tool = self.clock()

    def speak(self) -> None:
        """Mark the agent's first text."""
        self.spoke = self.clock()

    @property
    def at_once(self) -> bool:
        """Whether the turn waited neither for a process nor for a session of its agent."""
        return not self.waited.spawn and not self.waited.session_new

    @property
    def transport(self) -> str:
        """Return what served the turn: "pool" for a process of the pool, "agent" for one of its own, or "none"."""
        return "none" if not self.reached else "pool" if self.pooled else "agent"

    def breakdown(self) -> dict[str, float]:
        """Return seconds by phase; zeros for phases that were not reached.

        queue: waiting for the session's earlier turns and for a place in the pool. store: making the question durable.
        first_token: from the prompt to the first text, a part of first_tool and generation. total: from the request to
        the end. `Waited` and the rules above explain the others.
        """
        ended = self.clock() if self.ended is None else self.ended
        began = ended if self.began is None else self.began
        prompted = ended if self.prompted is None else self.prompted
        first_tool = 0.0 if self.tool is None else self.tool - prompted
        return {
            "queue": began - self.asked + self.waited.queue,
            "store": 0.0 if self.stored is None else self.stored - began,
            "spawn": self.waited.spawn,
            "session_new": self.waited.session_new,
            "bridge": self.bridge,
            "first_tool": first_tool,
            "generation": ended - prompted - first_tool,
            "first_token": 0.0 if self.spoke is None else self.spoke - prompted,
            "total": ended - self.asked,
        }

    def report(self, session_id: str, turn_id: str, model: str = "", owner: str = "") -> Mapping[str, object]:
        """End the turn and return its one record, which is logged if an agent was prompted."""
        self.ended = self.clock()
        facts: dict[str, object] = {name: milliseconds(seconds) for name, seconds in self.breakdown().items()}
        facts["transport"] = "pool" if self.pooled else "agent"
        facts["transport_from_pool"] = self.pooled
        facts["warmth"] = self.warmth
        facts["session_id"] = session_id
        facts["turn_id"] = turn_id
        facts["model"] = model
        facts["owner"] = owner
        level = logging.DEBUG if self.at_once else logging.INFO
        if self.reached and records.isEnabledFor(level):
            log.log(level, EVENT, **facts)
        return facts


def milliseconds(seconds: float) -> float:
    """Return milliseconds, rounded to microseconds and never negative."""
    return max(0.0, round(seconds * 1000, 3))
