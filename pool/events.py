"""One typed stream for every agent: what happens in a turn, in every protocol that agents speak.

Rules:
- A codec produces `AgentEvent`s and nothing else. A kind it does not know becomes `Other` with the raw message: never
  lost and never fatal.
- A turn ends with exactly one `Finished`, and nothing of that turn comes after it.
- What an agent can cause is an `AgentEvent`; what the program around the pool puts into a turn is a `HostEvent`. A
  codec is typed to return the former, so no message of an agent can be the latter, under any name.
- Values are immutable by convention (not frozen: a frozen dataclass costs three times as much to build, and these are
  built once per token).
"""

from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, TypeAlias

from ostler.pool.errors import PoolError
from ostler.wire.json import JsonObject
from ostler.wire.public_names import renamed


class StopReason(StrEnum):
    """Why a turn ended."""

    DONE = "done"
    CANCELLED = "cancelled"
    LIMIT = "limit"
    REFUSED = "refused"
    FAILED = "failed"


class ToolStatus(StrEnum):
    """The progress of a tool call of the agent."""

    PENDING = "pending"
    RUNNING = "running"
    COMPLETED = "completed"
    FAILED = "failed"


@dataclass(slots=True)
class Text:
    """A piece of the answer."""

    text: str


@dataclass(slots=True)
class UserText:
    """A piece of what the user said, as the agent repeats it: when it loads a session, and with some agents during a
    turn.
    """

    text: str


@dataclass(slots=True)
class Thought:
    """A piece of the agent's reasoning."""

    text: str


@dataclass(slots=True)
class ToolStarted:
    """The agent calls a tool: one of its own or one of the session's."""

    id: str
    title: str
    kind: str = "other"
    arguments: Any = None
    status: ToolStatus = ToolStatus.PENDING


@dataclass(slots=True)
class ToolUpdated:
    """Progress of a tool call; fields that the agent did not mention are None."""

    id: str
    title: str | None = None
    status: ToolStatus | None = None
    arguments: Any = None
    output: Any = None


@dataclass(slots=True)
class ToolEnded:
    """A tool call is over."""

    id: str
    status: ToolStatus
    output: Any = None


@dataclass(slots=True)
class PlanStep:
    """One step of the agent's plan."""

    text: str
    status: str = "pending"
    priority: str = "medium"


@dataclass(slots=True)
class Plan:
    """The agent's whole plan, replacing the one before."""

    steps: list[PlanStep]


@dataclass(slots=True)
class PermissionOption:
    """One way to answer; `kind` is allow_once, allow_always, reject_once or reject_always."""

    id: str
    name: str
    kind: str


@dataclass(slots=True)
class PermissionAsked:
    """The agent waits for a decision; the transport's policy answers it under `id`."""

    id: str
    title: str
    options: list[PermissionOption]
    tool_call: JsonObject = field(default_factory=dict)


@dataclass(slots=True)
class PermissionAnswered:
    """How a permission request was settled; `option` is None when it was cancelled."""

    id: str
    option: PermissionOption | None
    by: str


@dataclass(slots=True)
class Usage:
    """Token counts as the agent reports them; None where it does not."""

    input_tokens: int | None = None
    output_tokens: int | None = None
    total_tokens: int | None = None
    context_used: int | None = None
    context_size: int | None = None


@dataclass(slots=True)
class ModeChanged:
    """The session's mode is now `mode`."""

    mode: str


@dataclass(slots=True)
class ModelChanged:
    """The session's model is now `model`."""

    model: str


@dataclass(slots=True)
class Other:
    """A message of a kind that this version does not know, passed on whole."""

    kind: str
    raw: JsonObject


@dataclass(slots=True)
class MessageDropped:
    """A message of the agent exceeded one of our limits and was not read. It may have been a piece of this turn."""

    why: str


@dataclass(slots=True)
class Finished:
    """The end of the turn. For FAILED, `detail` says what went wrong and `cause` is the error behind it; `usage` is set
    where the agent reported it.
    """

    reason: StopReason
    detail: str = ""
    usage: Usage | None = None
    cause: PoolError | None = None


class HostEvent:
    """Base of the events that the program around the pool puts into the stream of a turn, for its own consumer.

    Subclass it and pass instances to `AgentTurn.put`. A consumer tells them apart by type; none is made from agent
    output.
    """

    __slots__ = ()


AgentEvent: TypeAlias = (
    Text
    | UserText
    | Thought
    | ToolStarted
    | ToolUpdated
    | ToolEnded
    | Plan
    | PermissionAsked
    | PermissionAnswered
    | Usage
    | ModeChanged
    | ModelChanged
    | Other
    | MessageDropped
    | Finished
)
"""Every event that a codec can make of agent output."""

TurnEvent: TypeAlias = AgentEvent | HostEvent


__getattr__ = renamed(__name__, {"Reason": "StopReason"})
