"""What the gateway itself puts into the stream of a turn, in its place among the agent's events.

Each is a type of its own: a consumer asks for the type, never for a string that an agent could send as well.
"""

from dataclasses import dataclass

from ostler.pool.events import HostEvent
from ostler.wire.json import JsonObject


@dataclass(frozen=True, slots=True)
class CallsReady(HostEvent):
    """Calls were gathered: end the present answer and hand them to the client."""


@dataclass(frozen=True, slots=True)
class CallsWaiting(HostEvent):
    """A sign of life while the client works on a call: the agent is not silent, it waits."""


@dataclass(frozen=True, slots=True)
class PermissionPending(HostEvent):
    """A question waits for `Session.answer_permission`; `question` has the fields of a `Permission`."""

    question: JsonObject


@dataclass(frozen=True, slots=True)
class HistoryCut(HostEvent):
    """The prompt left without the oldest `left_out` lines of its conversation."""

    left_out: int


@dataclass(frozen=True, slots=True)
class SeatToolsLost(HostEvent):
    """The prompt left on another seat, because the agent of the last one had lost its tools."""
