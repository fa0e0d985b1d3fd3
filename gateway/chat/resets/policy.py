"""Decides when a session is over by itself. Pure: times in, a reason or None out.

Rules:
- Idle: over when now is *later* than the last activity plus the idle time. Daily: over when the last activity lies
  *before* the most recent boundary, which is a fixed hour of the day in one time zone. Both: the earlier one names the
  reason.
- There is exactly one boundary in each day of the zone. If the hour is skipped (clocks go forward), it is the moment of
  the change; if it occurs twice (clocks go back), it is the first.
- A clock that steps back makes no session older.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta, tzinfo
from enum import StrEnum

from ostler.gateway.model.records import EndReason


class Mode(StrEnum):
    """Which of the two conditions apply."""

    NONE = "none"
    IDLE = "idle"
    DAILY = "daily"
    BOTH = "both"


@dataclass(frozen=True, slots=True)
class Policy:
    """The reset policy of one platform."""

    mode: Mode
    idle: float
    """Seconds without activity after which a session is over."""
    at_hour: int
    zone: tzinfo
    tells: bool = True
    """Whether the user is told that a new session began."""

    def verdict(self, last_active: float, now: float) -> EndReason | None:
        """The reason why a session with this last activity is over now; None if it is not."""
        reasons = [(moment, reason) for moment, reason in self._ends(last_active) if self._passed(reason, moment, now)]
        return min(reasons)[1] if reasons else None

    def over_before(self, now: float) -> float | None:
        """The time before which a last activity means that the session is over now; None if no session is."""
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
    """The first boundary after `after`."""
    day = datetime.fromtimestamp(after, zone)
    while (moment := boundary_of(day, at_hour)) <= after:
        day = _noon(day) + timedelta(days=1)
    return moment


def latest_boundary(until: float, at_hour: int, zone: tzinfo) -> float:
    """The last boundary at or before `until`."""
    day = datetime.fromtimestamp(until, zone)
    while (moment := boundary_of(day, at_hour)) > until:
        day = _noon(day) - timedelta(days=1)
    return moment


def boundary_of(day: datetime, at_hour: int) -> float:
    """The boundary on the day of this moment. With `fold=0`, a skipped hour is read with the offset before the change,
    which gives the moment of the change, and of a repeated hour the first is taken."""
    return day.replace(hour=at_hour, minute=0, second=0, microsecond=0, fold=0).timestamp()


def _noon(day: datetime) -> datetime:
    """Noon of the day: a step of one day from noon never skips a day or hits one twice."""
    return day.replace(hour=12, minute=0, second=0, microsecond=0, fold=0)
