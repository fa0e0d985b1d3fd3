"""The last turns, for the timeline, and the last failed turns. In memory, bounded; a restart forgets them.

Rules: only the end of a response id is kept, enough to find it in the log: a client that knows a whole id could request
the response. A failed turn keeps its session and owner, because an operator has to find the affected user. Error texts
are redacted and cut.
"""

from collections import Counter, deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from ostler.gateway.model.outcome import StopCause, TurnOutcome, TurnStatus
from ostler.gateway.turns.reports import TurnReport
from ostler.wire.json import JsonObject
from ostler.wire.redaction import excerpt

TURNS = 60
FAILURES = 20
PHASES = ("spawn", "bridge", "session_new", "first_tool", "generation")
LONGEST = 600
TAIL = 8


@dataclass(frozen=True, slots=True)
class PastTurn:
    """One turn that has ended; its phases in milliseconds."""

    at: float
    turn: str
    provider: str
    model: str
    status: str
    warmth: str
    transport: str
    phases: Mapping[str, float]
    error: str = ""
    reason: str = ""
    """The code of a failure, or why the answer is incomplete."""
    session: str = ""
    owner: str = ""

    @property
    def total(self) -> float:
        """The sum of all phases."""
        return sum(self.phases.values())

    def as_json(self) -> JsonObject:
        """The entry of the timeline."""
        return {
            "at": round(self.at, 3),
            "turn": self.turn,
            "provider": self.provider,
            "model": self.model,
            "status": self.status,
            "warmth": self.warmth,
            "transport": self.transport,
            "ms": {**self.phases, "total": round(self.total, 3)},
            "error": self.error,
            "reason": self.reason,
        }

    def as_failure(self) -> JsonObject:
        """The entry with its session and owner."""
        return {**self.as_json(), "session": self.session, "owner": self.owner}


@dataclass
class RecentTurns:
    """A `TurnObserver` that keeps the last turns."""

    wall: Callable[[], float]
    turns: deque[PastTurn] = field(default_factory=lambda: deque(maxlen=TURNS))
    failures: deque[PastTurn] = field(default_factory=lambda: deque(maxlen=FAILURES))
    outcomes: Counter[str] = field(default_factory=Counter)
    first_turns: Counter[str] = field(default_factory=Counter)
    """Counts of first turns of new sessions: `all`, and those that did not have to wait (`at_once`)."""

    def turn_ended(self, report: TurnReport) -> None:
        """Record a turn that has ended."""
        past = past_turn(report, self.wall())
        self.turns.append(past)
        self.outcomes[past.status] += 1
        if went_wrong(report.outcome):
            self.failures.append(past)
        # A later turn may claim a seat too, when its session had to move; it is not the first turn of a new session.
        if report.timings.first and (report.timings.reached or report.outcome.status is TurnStatus.FAILED):
            self.first_turns["all"] += 1
            self.first_turns["at_once"] += report.timings.reached and report.timings.at_once


def went_wrong(outcome: TurnOutcome) -> bool:
    """Whether an operator should see the turn: it failed, or was cut short by something other than its client."""
    early = outcome.status is TurnStatus.INCOMPLETE and outcome.reason not in {
        StopCause.DISCONNECT,
        StopCause.SUPERSEDED,
    }
    return outcome.status is TurnStatus.FAILED or early


def past_turn(report: TurnReport, at: float) -> PastTurn:
    """The facts of a report that are kept."""
    facts = report.facts
    return PastTurn(
        at=at,
        turn=report.turn_id[-TAIL:],
        provider=report.key.provider,
        model=report.key.model,
        status=report.outcome.status.value,
        # A turn that reached no agent has no warmth; the default of its timings would be misleading.
        warmth=report.timings.warmth if report.timings.reached else "",
        transport=report.timings.transport,
        phases={phase: number(facts.get(phase)) for phase in PHASES},
        error=excerpt(report.outcome.message, LONGEST),
        reason=report.outcome.code or report.outcome.reason,
        session=report.session_id,
        owner=report.owner,
    )


def number(value: object) -> float:
    """The value as a number; 0 for a phase without a measurement."""
    return float(value) if isinstance(value, int | float) else 0.0
