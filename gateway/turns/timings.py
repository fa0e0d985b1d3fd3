"""Where the time of a turn went: measured for that turn alone, logged once when it ends.

Rules:
- Moments are marked as they come, by the turn itself; spans are the distances between marks, so they cannot overlap
  and their sum is not above the turn's wall time. Nothing here is shared between turns.
- `spawn` and `session_new` are what this very turn waited for, so a warm seat shows zeros. `first_tool` runs from the
  prompt to the first tool call, 0 where none was called; `generation` is the rest of the answer.
- A turn that never reached an agent leaves no record. One that waited for a start or for a session to be opened is
  logged at info, every other one at debug: those are as many as there are turns.
"""

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import structlog

from ostler.pool.lease import Waited

records = logging.getLogger("ostler.turns")
# Wrapped here and not by `structlog.configure`, which would be the whole process's: a host has its own.
log: structlog.stdlib.BoundLogger = structlog.wrap_logger(
    records, processors=[structlog.stdlib.render_to_log_kwargs], wrapper_class=structlog.stdlib.BoundLogger
)
EVENT = "cold_start_breakdown"


@dataclass
class TurnTimings:
    """The clock of one turn."""

    clock: Callable[[], float]
    waited: Waited = field(default_factory=Waited)
    bridge: float = 0.0
    pooled: bool = True
    warmth: str = "own"
    first: bool = False
    """Whether nothing was said in its session before."""
    asked: float = 0.0
    """The request is a turn."""
    began: float | None = None
    """Its session has time for it."""
    stored: float | None = None
    """The question is durable."""
    seated: float | None = None
    """It has its seat."""
    prompted: float | None = None
    tool: float | None = None
    spoke: float | None = None
    ended: float | None = None

    def __post_init__(self) -> None:
        self.asked = self.clock()

    @property
    def reached(self) -> bool:
        """Whether an agent was asked."""
        return self.prompted is not None

    def begin(self) -> None:
        """The session's earlier turns are over."""
        self.began = self.clock()

    def store(self) -> None:
        """The question is durable."""
        self.stored = self.clock()

    def sit(self) -> None:
        """There is a seat."""
        self.seated = self.clock()

    def prompt(self) -> None:
        """The prompt leaves now."""
        self.prompted = self.clock()

    def tool_called(self) -> None:
        """The agent calls a tool; only the first one counts."""
        if self.tool is None:
            self.tool = self.clock()

    def speak(self) -> None:
        """The agent says its first word."""
        self.spoke = self.clock()

    @property
    def at_once(self) -> bool:
        """Whether it waited neither for a process nor for a session of its agent."""
        return not self.waited.spawn and not self.waited.session_new

    @property
    def transport(self) -> str:
        """What served it: a process of the pool, one of its own, or none."""
        return "none" if not self.reached else "pool" if self.pooled else "agent"

    def breakdown(self) -> dict[str, float]:
        """Seconds by phase; zeros for what was not reached.

        queue: waiting for the session's earlier turns and for a place in the pool. store: making the question durable.
        first_token: from the prompt to the first text, a part of first_tool and generation. total: from the request to
        the end. The rest is what `Waited` and the rules above say.
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
        """The turn is over: its one record, logged if an agent was asked, and handed back."""
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
    """With microseconds behind the point, and never negative."""
    return max(0.0, round(seconds * 1000, 3))
