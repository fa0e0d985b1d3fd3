"""When a session is over by itself. A value machine: times go in, a reason or nothing comes out.

Rules:
- Idle: over when now is *later* than the last activity plus the idle time. Daily: over when the last activity lies
  *before* the most recent boundary, which is one hour of the day on the clock of one zone. Both: whichever was first
  names the reason.
- There is exactly one boundary in each day of the zone. Where the hour is skipped (clocks go forward) it is the moment
  of the change; where it comes twice (clocks go back) it is the first one.
- A clock that stepped back makes nothing older.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo
from enum import StrEnum

from ostler.gateway.model.records import EndReason


class Mode(StrEnum):
    """Which of the two holds."""

    NONE = "none"
    IDLE = "idle"
    DAILY = "daily"
    BOTH = "both"


@dataclass(frozen=True, slots=True)
class Policy:
    """Of one platform."""

    mode: Mode
    idle: float
    """Seconds."""
    at_hour: int
    zone: tzinfo
    tells: bool = True
    """Whether the person is told that the session began anew."""

    def verdict(self, last_active: float, now: float) -> EndReason | None:
        """Why a session that was last active then is over now; None while it is not."""
        reasons = [(moment, reason) for moment, reason in self._ends(last_active) if self._passed(reason, moment, now)]
        return min(reasons)[1] if reasons else None

    def over_before(self, now: float) -> float | None:
        """Every session whose last activity lies before this is over now, and no other; None: none is."""
        edges = []
        if self.mode in (Mode.IDLE, Mode.BOTH):
            edges.append(now - self.idle)
        if self.mode in (Mode.DAILY, Mode.BOTH):
            edges.append(latest_boundary(now, self.at_hour, self.zone))
        return max(edges, default=None)

    def _ends(self, last_active: float) -> list[tuple[float, EndReason]]:
        ends = []
        if self.mode in (Mode.DAILY, Mode.BOTH):
            ends.append((next_boundary(last_active, self.at_hour, self.zone), EndReason.DAILY))
        if self.mode in (Mode.IDLE, Mode.BOTH):
            ends.append((last_active + self.idle, EndReason.IDLE))
        return ends

    @staticmethod
    def _passed(reason: EndReason, moment: float, now: float) -> bool:
        return now > moment if reason is EndReason.IDLE else now >= moment


def next_boundary(after: float, at_hour: int, zone: tzinfo) -> float:
    """The first boundary that is later."""
    day = datetime.fromtimestamp(after, zone)
    while (moment := boundary_of(day, at_hour)) <= after:
        day = _noon(day) + timedelta(days=1)
    return moment


def latest_boundary(until: float, at_hour: int, zone: tzinfo) -> float:
    """The last boundary that is not later."""
    day = datetime.fromtimestamp(until, zone)
    while (moment := boundary_of(day, at_hour)) > until:
        day = _noon(day) - timedelta(days=1)
    return moment


def boundary_of(day: datetime, at_hour: int) -> float:
    """The boundary in the day of this moment. `fold=0` reads an hour that is skipped by the clock before the change,
    which makes it the change itself, and takes the first of two."""
    return day.replace(hour=at_hour, minute=0, second=0, microsecond=0, fold=0).timestamp()


def _noon(day: datetime) -> datetime:
    """A moment of the day from which a day's step never leaves out a day or takes one twice."""
    return day.replace(hour=12, minute=0, second=0, microsecond=0, fold=0)
