"""Who hears of every turn's end: once for each turn, with its own measured times.

Rules: called on the loop, must not block. One that fails is a fault of ours, told to the log: the turn's client and the
other observers are not to suffer for it. A report holds the names that logs have; whoever shows it to
people decides what of it they may see.
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
    """A turn that is over. `facts` is the `cold_start_breakdown` record; there are some also where no agent was
    reached and so none was logged."""

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
    """The name of the key that asked; empty where none is needed."""


class TurnObserver(Protocol):
    """Somebody who wants to know."""

    def turn_ended(self, report: TurnReport) -> None: ...


class NoTurnObserver:
    """Nobody does."""

    def turn_ended(self, report: TurnReport) -> None:
        del report


class TurnObservers:
    """Several for one."""

    def __init__(self, *each: TurnObserver) -> None:
        self._each = each

    def turn_ended(self, report: TurnReport) -> None:
        for one in self._each:
            try:
                one.turn_ended(report)
            except Exception:
                log.exception("turn %s is over, and %s could not be told", report.turn_id, type(one).__name__)
