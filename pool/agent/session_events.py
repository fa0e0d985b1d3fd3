"""The states of one agent session, and what its shell tells `SessionMachine`.

Rules:
- An event that belongs to a turn names it by its number, so that a late one is recognised. The others are about
  the present moment.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TypeAlias

from ostler.pool.events import Finished
from ostler.pool.prompt import PromptPart
from ostler.pool.provider import Level


class SessionState(StrEnum):
    """What a session is doing. From `WAITING` to `SETTLING` it has a turn."""

    LOADING = "loading"
    """The agent repeats the conversation that an earlier process had."""
    IDLE = "idle"
    WAITING = "waiting"
    """A prompt is claimed; late pieces of a cancelled turn must have stopped before it is sent."""
    CHECKING = "checking"
    """A prompt is claimed; the shell makes sure that it may be sent."""
    RUNNING = "running"
    CANCELLING = "cancelling"
    """The agent is to end its turn. The consumer may have its end already."""
    SETTLING = "settling"
    """The agent has ended its turn; its last updates may still come."""
    SEALED = "sealed"
    """No further prompt is accepted."""
    CLOSED = "closed"
    """The session was given back: nothing more is decided about it."""


@dataclass(slots=True)
class TurnEventBase:
    """An event of one turn; it is stale when another turn, or none, is the claimed one."""

    turn: int


@dataclass(slots=True)
class LoadAnswered:
    """The agent has answered the load; what it repeats may still come. `found`: what was said last is in it."""

    found: bool


@dataclass(slots=True)
class EventRepeated:
    """A piece of the replay came."""

    found: bool


@dataclass(slots=True)
class LateEvent:
    """An update came while no turn ran. Needed only before `SessionMachine.quiet_until`."""


@dataclass(slots=True)
class PromptAsked:
    """A caller wants to prompt. Unless it is refused, the next turn is claimed."""


@dataclass(slots=True)
class PromptChecked(TurnEventBase):
    """The prompt may be sent."""

    parts: Sequence[PromptPart]
    level: Level | None


@dataclass(slots=True)
class PromptWithdrawn(TurnEventBase):
    """The prompt was not sent: a check failed, or its caller has given up."""

    why: str


@dataclass(slots=True)
class CancelAsked(TurnEventBase):
    """The consumer wants the turn to end, or is gone."""


@dataclass(slots=True)
class CancelTold:
    """The agent was told to cancel. Some cannot be told before they have begun."""


@dataclass(slots=True)
class AgentActed:
    """The agent said something in its turn. Needed only while `SessionMachine.attentive`.

    `answers`: it begins an answer; `words`: and is of a kind that every agent repeats when it loads the session.
    """

    answers: bool
    words: bool


@dataclass(slots=True)
class AgentFinished(TurnEventBase):
    """The agent has ended its turn."""

    finished: Finished


@dataclass(slots=True)
class PromptRefused(TurnEventBase):
    """The agent has answered the prompt with an error."""

    code: int
    message: str


@dataclass(slots=True)
class ConsumerTooSlow:
    """More events wait for the consumer than may be held."""


@dataclass(slots=True)
class SealAsked:
    """Accept no further prompt and end a running turn now, by `end` if given."""

    why: str
    end: Finished | None = None


@dataclass(slots=True)
class CloseAsked:
    """Cancel a running turn, and give the session back once it has ended."""


@dataclass(slots=True)
class TimePassed:
    """The time is `due`. `heard`: events of the turn so far; `waiting`: the agent waits for an answer of ours."""

    heard: int = 0
    waiting: bool = False


SessionEvent: TypeAlias = (
    LoadAnswered
    | EventRepeated
    | LateEvent
    | PromptAsked
    | PromptChecked
    | PromptWithdrawn
    | CancelAsked
    | CancelTold
    | AgentActed
    | AgentFinished
    | PromptRefused
    | ConsumerTooSlow
    | SealAsked
    | CloseAsked
    | TimePassed
)
