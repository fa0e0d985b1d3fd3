"""Who hears of every turn's end: once for each turn, with its own measured times.

Rules: called on the loop, must not block, must not fail. A report holds the names that logs have; whoever shows it to
people decides what of it they may see.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from ostler.gateway.sessions.outcome import Outcome
from ostler.pool.keys import TransportKey


@dataclass(frozen=True, slots=True)
class TurnReport:
    """A turn that is over. `facts` is the `cold_start_breakdown` record."""

    session_id: str
    turn_id: str
    key: TransportKey
    outcome: Outcome
    facts: Mapping[str, object]


class TurnObserver(Protocol):
    """Somebody who wants to know."""

    def turn_ended(self, report: TurnReport) -> None: ...


class NoTurnObserver:
    """Nobody does."""

    def turn_ended(self, report: TurnReport) -> None:
        del report
