"""What `SessionMachine` orders its shell to do, in order. It has recorded every action before it returns it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from ostler.pool.events import Finished
from ostler.pool.prompt import PromptPart
from ostler.pool.provider import Level


@dataclass(slots=True)
class RefusePrompt:
    """Not now (another turn, a load) or never again (sealed)."""


@dataclass(slots=True)
class ResumeWaiter:
    """Let the caller go on that waits for the end of the load, or for quiet."""


@dataclass(slots=True)
class SendPrompt:
    """Send the prompt to the agent."""

    parts: Sequence[PromptPart]
    level: Level | None


@dataclass(slots=True)
class TellCancel:
    """Tell the agent to cancel, if it can be told yet: then `CancelTold` is the answer."""


@dataclass(slots=True)
class DropRequests:
    """Answer the agent's open permission requests with "cancelled", and with `calls` its tool calls with an error."""

    calls: bool


@dataclass(slots=True)
class EndTurn:
    """Give the consumer the end of its turn. Once for each claimed turn."""

    finished: Finished


@dataclass(slots=True)
class FreeSession:
    """The turn is over for the agent too. Once for each claimed turn.

    `sent`: the agent was prompted; `well`: it has prompt and answer on record; `worded`: the answer had words.
    """

    sent: bool
    well: bool
    worded: bool


@dataclass(slots=True)
class ReportAnswer:
    """The answer has begun, or its turn has ended without one. Once for each claimed turn."""


SessionAction: TypeAlias = (
    RefusePrompt | ResumeWaiter | SendPrompt | TellCancel | DropRequests | EndTurn | FreeSession | ReportAnswer
)
