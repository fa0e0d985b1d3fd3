"""What comes in at a chat face, and what goes out. Values only."""

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
    """One message of a person."""

    key: SessionKey
    text: str
    attachments: tuple[JsonObject, ...] = ()
    caller: Caller = field(default_factory=Caller)
    kept: Callable[[ChatAnswer], IdempotencyRecord | None] | None = None
    """What of the answer is stored for those who send the same message again."""


@dataclass(frozen=True, slots=True)
class Notice:
    """What the gateway says by itself."""

    kind: CommandKind
    session_id: str | None
    text: str
    items: tuple[JsonObject, ...] = ()


@dataclass(frozen=True, slots=True)
class AnswerStarted:
    """The agent is at it: `answer` grows until its `done` is set."""

    session_id: str
    turn: Turn
    answer: ChatAnswer


ChatResult = Notice | AnswerStarted
