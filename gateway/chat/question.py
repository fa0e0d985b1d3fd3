"""A user's message as it is stored and as the agent receives it, and the same read back from the store.

Rules: the stored item is the truth. `question_of` builds the same prompt from it again, including images.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from ostler.gateway.chat.errors import EmptyMessage
from ostler.gateway.model.ask import Ask
from ostler.gateway.model.content import parts_of, words_of
from ostler.gateway.model.permits import PermissionRule
from ostler.gateway.model.records import MessageRecord
from ostler.pool.keys import TransportKey
from ostler.pool.prompt import PromptPart
from ostler.wire.json import JsonObject


@dataclass(frozen=True, slots=True)
class Question:
    """One message of a user, ready to become an `Ask`."""

    parts: tuple[PromptPart, ...]
    text: str
    """The text of the message, without attachments."""
    items: tuple[JsonObject, ...]
    stored: int | None = None
    """The id of the stored message, if it is asked again."""

    def ask(self, key: TransportKey, rule: PermissionRule) -> Ask:
        """Address the question to the process of `key`."""
        return Ask(key, self.parts, self.text, self.items, again=self.stored, rule=rule)


def question(text: str, attachments: Sequence[JsonObject], new_id: Callable[[str], str]) -> Question:
    """Build a question from a received message; or raise `EmptyMessage`."""
    said: list[Any] = [{"type": "input_text", "text": text}] if text else []
    content = [*said, *attachments]
    if not content or (not attachments and not text.strip()):
        raise EmptyMessage
    parts = [*parts_of(said, "text"), *parts_of(list(attachments), "attachments")]
    item = {"type": "message", "id": new_id("msg"), "role": "user", "status": "completed", "content": content}
    return Question(tuple(parts), words_of(parts), (item,))


def question_of(message: MessageRecord) -> Question:
    """Build a question from a stored user message, to ask it again."""
    parts = [part for item in message.items for part in parts_of(item.get("content") or [], "content")]
    return Question(tuple(parts), message.text, message.items, message.id)
