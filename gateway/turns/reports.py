"""Observers of the end of turns: they are called once for each turn, with its own measured times.

Rules:
- Observers are called on the event loop and must not block.
- An observer that raises is a bug of ours and is logged: the turn's client and the other observers are not affected.
- A report contains names as they stand in logs; code that shows it to users decides what they may see.
"""

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol

from ostler.gateway.model.correlation import RequestOrigin
from ostler.gateway.model.outcome import TurnOutcome
from ostler.gateway.turns.timings import TurnTimings
from ostler.pool.keys import TransportKey

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class TurnReport:
    """A turn that is over. `facts` is the `cold_start_breakdown` record; it exists also if the turn reached no agent
    and logged none."""

    session_id: str
    turn_id: str
    key: TransportKey
    outcome: TurnOutcome
    facts: Mapping[str, object]
    timings: TurnTimings
    origin: RequestOrigin
    left_out: int = 0
    """Lines of the conversation that did not fit the prompt."""
    owner: str = ""
    """The name of the API key; "" if the gateway needs none."""


class TurnObserver(Protocol):
    """Receives the report of every turn that ends."""

    def turn_ended(self, report: TurnReport) -> None: ...


class NoTurnObserver:
    """Ignores the report of every turn."""

    def turn_ended(self, report: TurnReport) -> None:
        del report


class TurnObservers:
    """Passes each report to several observers."""

    def __init__(self, *each: TurnObserver) -> None:
        self._each = each

    def turn_ended(self, report: TurnReport) -> None:
        for one in self._each:
            try:
                one.turn_ended(report)
            except Exception:
                log.exception("turn %s is over, and %s could not be told", report.turn_id, type(one).__name__)
