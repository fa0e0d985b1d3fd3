"""The values that enter and leave a chat surface."""

from collections.abc import Callable
from dataclasses import dataclass, field

from ostler.gateway.chat.answer import ChatAnswer
from ostler.gateway.chat.commands.registry import CommandKind
from ostler.gateway.chat.session_keys import SessionKey
from ostler.gateway.config.keys import Caller
from ostler.gateway.model.records import IdempotencyRecord
from ostler.gateway.turns.turn import Turn
from ostler.wire.json import JsonObject

NoticeCallback = Callable[[str, JsonObject], None]


@dataclass(frozen=True, slots=True)
class ChatMessage:
    """One message of a user."""

    key: SessionKey
    text: str
    attachments: tuple[JsonObject, ...] = ()
    caller: Caller = field(default_factory=Caller)
    kept: Callable[[ChatAnswer], IdempotencyRecord | None] | None = None
    """Makes the record that answers a repeated request with the same idempotency key."""


@dataclass(frozen=True, slots=True)
class Notice:
    """A reply by the gateway itself; the agent was not prompted."""

    kind: CommandKind
    session_id: str | None
    text: str
    items: tuple[JsonObject, ...] = ()


@dataclass(frozen=True, slots=True)
class AnswerStarted:
    """The turn is queued: `answer` grows until its `done` is set."""

    session_id: str
    turn: Turn
    answer: ChatAnswer


ChatResult = Notice | AnswerStarted
