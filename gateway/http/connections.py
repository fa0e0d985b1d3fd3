"""Which connections a listener has open, and which of them is closed for a new one. A value machine.

Rules:
- There are never more than `limit`. For one more, the connection that was idle longest is closed; if none is idle, the
  one that has waited longest for the rest of its request. A connection that is being answered is never closed.
- The closed one belongs to the address with the most connections: a client that opens a thousand loses its own.
- If none can be closed, the new one is refused.
"""

from collections import Counter
from collections.abc import Hashable
from enum import Enum
from typing import Generic, TypeVar

from ostler.gateway.model.api_error import ApiError

Connection = TypeVar("Connection", bound=Hashable)


class ConnectionPhase(Enum):
    """What a connection is doing."""

    IDLE = "idle"
    """Between two requests, or before the head of the first one is complete."""
    RECEIVING = "receiving"
    """The body of its request is not complete yet."""
    ANSWERED = "answered"


GIVEN_UP = (ConnectionPhase.IDLE, ConnectionPhase.RECEIVING)
"""The phases whose connections may be closed for a new one, in this order."""


class TooManyConnections(ApiError):
    """The limit is reached, and all connections are being answered."""

    def __init__(self, limit: int) -> None:
        text = f"all {limit} connections of this gateway are in use; try again, or raise gateway.connections_max"
        super().__init__(503, text, code="too_many_connections", retry_after=1, hang_up=True)


class Connections(Generic[Connection]):
    """The open connections of one listener."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.evicted = 0
        self.refused = 0
        self._places: dict[Connection, tuple[str, ConnectionPhase]] = {}
        self._of_peer: Counter[str] = Counter()
        self._in_phase: dict[ConnectionPhase, dict[str, dict[Connection, None]]] = {
            phase: {} for phase in ConnectionPhase
        }
        """By address, in the order in which they entered the phase."""

    def __len__(self) -> int:
        return len(self._places)

    def admit(self, connection: Connection, peer: str) -> Connection | None:
        """Count a new connection. Return the one to close for it, or None. Raises `TooManyConnections`."""
        victim = self._victim() if len(self._places) >= self.limit else None
        if victim is not None:
            self.evicted += 1
            self.leave(victim)
        elif len(self._places) >= self.limit:
            self.refused += 1
            raise TooManyConnections(self.limit)
        self._of_peer[peer] += 1
        self._enter(connection, peer, ConnectionPhase.IDLE)
        return victim

    def turn(self, connection: Connection, phase: ConnectionPhase) -> None:
        """Move a connection to another phase. No-op for one that is not counted any more."""
        place = self._places.get(connection)
        if place is not None and place[1] is not phase:
            self._take_out(connection, *place)
            self._enter(connection, place[0], phase)

    def leave(self, connection: Connection) -> None:
        """Stop counting a connection that was closed. Idempotent."""
        place = self._places.pop(connection, None)
        if place is not None:
            self._take_out(connection, *place)
            self._of_peer[place[0]] -= 1
            if not self._of_peer[place[0]]:
                del self._of_peer[place[0]]

    def _victim(self) -> Connection | None:
        for phase in GIVEN_UP:
            peers = self._in_phase[phase]
            if peers:
                return next(iter(peers[max(peers, key=self._of_peer.__getitem__)]))
        return None

    def _enter(self, connection: Connection, peer: str, phase: ConnectionPhase) -> None:
        self._places[connection] = peer, phase
        self._in_phase[phase].setdefault(peer, {})[connection] = None

    def _take_out(self, connection: Connection, peer: str, phase: ConnectionPhase) -> None:
        there = self._in_phase[phase][peer]
        del there[connection]
        if not there:
            del self._in_phase[phase][peer]
