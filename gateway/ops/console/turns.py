"""The last turns, for the timeline, and those of them that failed. In memory, bounded; a restart forgets them.

Rules: of a response only the end of its id is kept, enough to find it in the log: a client that knows a whole one could
ask for it. Of a turn that failed, its session and owner are told, because an operator has to find whom it happened to.
Error texts are redacted and cut.
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
    """One turn; milliseconds by phase."""

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
    """The code of a failure, or why an answer is incomplete."""
    session: str = ""
    owner: str = ""

    @property
    def total(self) -> float:
        """All phases."""
        return sum(self.phases.values())

    def as_json(self) -> JsonObject:
        """As a line of the timeline."""
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
        """The same with whom it happened to."""
        return {**self.as_json(), "session": self.session, "owner": self.owner}


@dataclass
class RecentTurns:
    """A `TurnObserver`."""

    wall: Callable[[], float]
    turns: deque[PastTurn] = field(default_factory=lambda: deque(maxlen=TURNS))
    failures: deque[PastTurn] = field(default_factory=lambda: deque(maxlen=FAILURES))
    outcomes: Counter[str] = field(default_factory=Counter)
    first_turns: Counter[str] = field(default_factory=Counter)
    """Of new sessions: how many there were (`all`), and how many waited for nothing (`at_once`)."""

    def turn_ended(self, report: TurnReport) -> None:
        """One more."""
        past = past_turn(report, self.wall())
        self.turns.append(past)
        self.outcomes[past.status] += 1
        if went_wrong(report.outcome):
            self.failures.append(past)
        # A later turn may take a seat, too, where its session had to move: that serves nobody new.
        if report.timings.first and (report.timings.reached or report.outcome.status is TurnStatus.FAILED):
            self.first_turns["all"] += 1
            self.first_turns["at_once"] += report.timings.reached and report.timings.at_once


def went_wrong(outcome: TurnOutcome) -> bool:
    """Whether an operator should see it: it failed, or was cut short by something else than its client."""
    early = outcome.status is TurnStatus.INCOMPLETE and outcome.reason not in {
        StopCause.DISCONNECT,
        StopCause.SUPERSEDED,
    }
    return outcome.status is TurnStatus.FAILED or early


def past_turn(report: TurnReport, at: float) -> PastTurn:
    """What is kept of a report."""
    facts = report.facts
    return PastTurn(
        at=at,
        turn=report.turn_id[-TAIL:],
        provider=report.key.provider,
        model=report.key.model,
        status=report.outcome.status.value,
        # Of one that reached no agent nothing was warm: the clock's own words are for those that did.
        warmth=report.timings.warmth if report.timings.reached else "",
        transport=report.timings.transport,
        phases={phase: number(facts.get(phase)) for phase in PHASES},
        error=excerpt(report.outcome.message, LONGEST),
        reason=report.outcome.code or report.outcome.reason,
        session=report.session_id,
        owner=report.owner,
    )


def number(value: object) -> float:
    """A measured number."""
    return float(value) if isinstance(value, int | float) else 0.0
