"""Who is told what becomes of conversations, so that something outside them can remember (memory, statistics).

Rules:
- Every change of the session that a conversation writes to, and every rewind, is told exactly once. `session_ended`
  comes strictly before the `session_switched` that follows from it.
- Nothing here waits for work: a witness queues and returns. Only `recall` is awaited, and bounds itself.
- Every call carries the session it belongs to; there is no "current" session.
"""

from collections.abc import Sequence
from enum import StrEnum
from typing import Protocol

from ostler.gateway.model.records import MessageRecord


class SwitchReason(StrEnum):
    """Why a conversation writes to another session now."""

    NEW = "new_session"
    RESUME = "resume"
    BRANCH = "branch"
    COMPRESSION = "compression"


class ConversationObserver(Protocol):
    async def recall(self, session_id: str, question: str) -> str:
        """What should be said to the agent before this question; "" for nothing. Never raises, never takes long."""

    def turn_ended(self, session_id: str, question: str, answer: str) -> None:
        """A turn that was answered: neither cancelled, nor failed, nor empty."""

    def session_ended(self, session_id: str, transcript: Sequence[MessageRecord]) -> None:
        """A session ended for good; this is its whole transcript."""

    def session_switched(self, session_id: str, *, parent_id: str, reason: SwitchReason) -> None:
        """The conversation writes to this session now. Only NEW forgets what was before."""

    def session_rewound(self, session_id: str) -> None:
        """Turns were taken back."""


class NoConversationObserver:
    """Nobody listens."""

    async def recall(self, session_id: str, question: str) -> str:
        del session_id, question
        return ""

    def turn_ended(self, session_id: str, question: str, answer: str) -> None:
        del session_id, question, answer

    def session_ended(self, session_id: str, transcript: Sequence[MessageRecord]) -> None:
        del session_id, transcript

    def session_switched(self, session_id: str, *, parent_id: str, reason: SwitchReason) -> None:
        del session_id, parent_id, reason

    def session_rewound(self, session_id: str) -> None:
        del session_id
