"""Events that the gateway itself puts into the stream of a turn, in their place among the agent's events.

Rule: each is a type of its own. A consumer checks for the type, never for a string that an agent could send as well.
"""

from dataclasses import dataclass

from ostler.pool.events import HostEvent
from ostler.wire.json import JsonObject


@dataclass(frozen=True, slots=True)
class CallsReady(HostEvent):
    """Calls were gathered: the present answer ends and the client gets them."""


@dataclass(frozen=True, slots=True)
class CallsWaiting(HostEvent):
    """A sign of life while the client works on a call: the agent is not silent, it waits."""


@dataclass(frozen=True, slots=True)
class PermissionPending(HostEvent):
    """A permission request waits for `Session.answer_permission`; `question` has the fields of a `Permission`."""

    question: JsonObject


@dataclass(frozen=True, slots=True)
class HistoryCut(HostEvent):
    """The prompt was sent without the `left_out` oldest lines of its conversation."""

    left_out: int


@dataclass(frozen=True, slots=True)
class SeatToolsLost(HostEvent):
    """The prompt was sent on another seat, because the agent on the previous one had lost its tools."""
