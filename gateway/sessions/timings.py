"""Where the time of a turn went: measured for that turn alone, logged once when it ends.

Rules:
- Moments are marked as they come, by the turn itself; spans are the distances between marks, so they cannot overlap
  and their sum is not above the turn's wall time. Nothing here is shared between turns.
- `spawn` and `session_new` are what this very turn waited for, so a warm seat shows zeros. `first_tool` runs from the
  prompt to the first tool call, 0 where none was called; `generation` is the rest of the answer.
- A turn that never reached an agent has no breakdown.
"""

import logging
from collections.abc import Callable
from dataclasses import dataclass, field

import structlog

from ostler.pool.lease import Waited

# Wrapped here and not by `structlog.configure`, which would be the whole process's: a host has its own.
log: structlog.stdlib.BoundLogger = structlog.wrap_logger(
    logging.getLogger("ostler.turns"),
    processors=[structlog.stdlib.filter_by_level, structlog.stdlib.render_to_log_kwargs],
    wrapper_class=structlog.stdlib.BoundLogger,
)
EVENT = "cold_start_breakdown"


@dataclass(frozen=True, slots=True)
class Breakdown:
    """Seconds."""

    queue: float
    """Waiting for the session's earlier turns and for a place in the pool."""
    spawn: float
    session_new: float
    bridge: float
    first_tool: float
    generation: float
    first_token: float
    """From the prompt to the first text; part of `first_tool` and `generation`."""
    total: float
    """From the request to the end, with what is none of the above: the store, for one."""


@dataclass
class Timings:
    """The clock of one turn."""

    clock: Callable[[], float]
    waited: Waited = field(default_factory=Waited)
    bridge: float = 0.0
    pooled: bool = True
    warmth: str = "own"
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

    def breakdown(self) -> Breakdown | None:
        """Once it has ended. None: no agent was asked."""
        if self.prompted is None or self.ended is None:
            return None
        first_tool = 0.0 if self.tool is None else self.tool - self.prompted
        began = self.asked if self.began is None else self.began
        return Breakdown(
            queue=began - self.asked + self.waited.queue,
            spawn=self.waited.spawn,
            session_new=self.waited.session_new,
            bridge=self.bridge,
            first_tool=first_tool,
            generation=self.ended - self.prompted - first_tool,
            first_token=0.0 if self.spoke is None else self.spoke - self.prompted,
            total=self.ended - self.asked,
        )

    def report(self, session_id: str, turn_id: str) -> None:
        """The turn is over: the one record of it."""
        self.ended = self.clock()
        spans = self.breakdown()
        if spans is None:
            return
        log.info(
            EVENT,
            spawn=milliseconds(spans.spawn),
            bridge=milliseconds(spans.bridge),
            session_new=milliseconds(spans.session_new),
            first_tool=milliseconds(spans.first_tool),
            generation=milliseconds(spans.generation),
            queue=milliseconds(spans.queue),
            first_token=milliseconds(spans.first_token),
            total=milliseconds(spans.total),
            transport="pool" if self.pooled else "agent",
            transport_from_pool=self.pooled,
            warmth=self.warmth,
            session_id=session_id,
            turn_id=turn_id,
        )


def milliseconds(seconds: float) -> float:
    """With microseconds behind the point, and never negative."""
    return max(0.0, round(seconds * 1000, 3))
