"""Who is told how turns ended, so that it can be counted. Told once for each turn, on the loop; must not wait."""

from typing import Protocol

from ostler.gateway.sessions.outcome import Outcome
from ostler.gateway.sessions.timings import Timings
from ostler.pool.keys import TransportKey


class TurnWatch(Protocol):
    """Counts."""

    def turn_ended(self, turn_id: str, key: TransportKey, outcome: Outcome, timings: Timings) -> None:
        """It is over; `timings.reached` says whether an agent was asked."""


class NoWatch:
    """Nobody counts."""

    def turn_ended(self, turn_id: str, key: TransportKey, outcome: Outcome, timings: Timings) -> None:
        """Nobody counts."""
