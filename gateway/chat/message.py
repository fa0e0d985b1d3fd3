"""The values that enter and leave a chat surface."""

from dataclasses import dataclass, field

from ostler.gateway.chat.answer import MessageForm
from ostler.gateway.chat.commands.registry import CommandKind
from ostler.gateway.chat.session_keys import SessionKey
from ostler.gateway.config.keys import Caller
from ostler.gateway.turns.turn import Turn
from ostler.wire.json import JsonObject


@dataclass(frozen=True, slots=True)
class ChatMessage:
    """One message of a user."""

    key: SessionKey
    text: str
    attachments: tuple[JsonObject, ...] = ()
    caller: Caller = field(default_factory=Caller)


@dataclass(frozen=True, slots=True)
class Notice:
    """A reply by the gateway itself; the agent was not prompted."""

    kind: CommandKind
    session_id: str | None
    text: str
    items: tuple[JsonObject, ...] = ()


@dataclass(frozen=True, slots=True)
class AnswerStarted:
    """The turn is queued: `turn.answer` grows until its end, and `form.events` says what to tell of it."""

    turn: Turn
    form: MessageForm


ChatResult = Notice | AnswerStarted
