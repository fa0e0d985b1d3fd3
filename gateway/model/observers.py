"""Observers of conversations, so that code outside them can remember (memory, statistics).

Rules:
- Every change of the session that a conversation writes to, and every rewind, is reported exactly once. `session_ended`
  comes strictly before the `session_switched` that follows from it.
- An observer never makes its caller wait: it queues and returns. Only `recall` is awaited, and it limits its own time.
- Every call names the session it belongs to; there is no "current" session.
"""

from collections.abc import Sequence
from enum import StrEnum
from typing import Protocol

from ostler.gateway.model.records import MessageRecord


class SwitchReason(StrEnum):
    """Why a conversation now writes to another session."""

    NEW = "new_session"
    RESUME = "resume"
    BRANCH = "branch"
    COMPRESSION = "compression"


class ConversationObserver(Protocol):
    """What code outside a conversation implements to follow it: memory is the one observer of the gateway."""

    async def recall(self, session_id: str, question: str) -> str:
        """Return what to tell the agent before this question, "" for nothing. Never raises, and limits its own time."""

    def turn_ended(self, session_id: str, question: str, answer: str) -> None:
        """A turn completed with an answer: it was not cancelled and did not fail, and the answer is not empty."""

    def session_ended(self, session_id: str, transcript: Sequence[MessageRecord]) -> None:
        """A session ended and will not continue; this is its whole transcript."""

    def session_switched(self, session_id: str, *, parent_id: str, reason: SwitchReason) -> None:
        """The conversation now writes to this session. Only NEW means that the earlier conversation no longer
        counts."""

    def session_rewound(self, session_id: str) -> None:
        """Turns of the session were taken back."""
