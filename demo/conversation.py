"""The messages that one session remembers.

Rules of this file: pure. A message is remembered once, in the order of arrival, whether it was typed, loaded or
replayed. Nothing is de-duplicated: if a gateway passes a history twice, tests must be able to see it.
"""

from __future__ import annotations

import json

from ostler.wire.recalled import is_recalled
from ostler.wire.transcript import parse_transcript


class DemoConversation:
    """The messages of one session, oldest first, as (role, text)."""

    __slots__ = ("messages",)

    def __init__(self, messages: list[tuple[str, str]] | None = None) -> None:
        self.messages = messages or []

    def recall(self) -> str:
        """Return the user texts so far, one per line."""
        return "\n".join(text for role, text in self.messages if role == "user")

    def add(self, role: str, text: str) -> None:
        self.messages.append((role, text))

    def title(self) -> str | None:
        """Return the first line of the first user text, as a list of sessions shows it."""
        first = next((text for role, text in self.messages if role == "user"), "")
        return first.partition("\n")[0][:80] or None


class Prompt:
    """A parsed prompt: the history that it contains, its own text, and its images.

    Text recalled by a memory is background: it is neither answered nor remembered as said.
    """

    __slots__ = ("history", "images", "text")

    def __init__(self, blocks: list[dict[str, object]]) -> None:
        texts = [(place, str(block["text"])) for place, block in enumerate(blocks) if block.get("type") == "text"]
        self.history: list[tuple[str, str]] = []
        if len(blocks) > 1 and texts and texts[0][0] == 0:
            replayed = parse_transcript(texts[0][1])
            if replayed is not None:
                self.history = replayed
                del texts[0]
        if len(texts) > 1 and is_recalled(texts[0][1]):
            del texts[0]
        self.text = "\n".join(text for _, text in texts)
        self.images = [str(block["data"]) for block in blocks if block.get("type") == "image"]


def dump_message(role: str, text: str) -> str:
    """Return one line of a stored conversation."""
    return json.dumps([role, text])


def load_message(line: str) -> tuple[str, str] | None:
    """Return the message of one stored line; None for a line that a crash cut short."""
    try:
        role, text = json.loads(line)
    except (ValueError, TypeError):
        return None
    return (role, text) if isinstance(role, str) and isinstance(text, str) else None
