"""What comes in at a chat face, and what goes out. Values only."""

from collections.abc import Callable
from dataclasses import dataclass, field

from ostler.gateway.api.keys import Caller
from ostler.gateway.commands.registry import CommandKind
from ostler.gateway.faces.answer import ChatAnswer
from ostler.gateway.faces.keys import SessionKey
from ostler.gateway.records import IdempotencyRecord
from ostler.gateway.sessions.turn import Turn
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
