"""The transcript preamble: how an earlier conversation is handed to an agent that cannot load it by itself.

Rules:
- One text block, placed first in a prompt and always followed by the prompt's own blocks. A reader that finds the block
  alone treats it as ordinary text, so a person who pastes a transcript is answered, not obeyed.
- The header is one line of prose: a real model must understand it without knowing the format.
- One line per message, `role: <JSON string>`. JSON keeps any message on one line, so no message can forge a second one
  or the end line.
- Pure, and imports nothing but json: the demo agent reads this at start-up, where every import adds to the delay.
"""

from __future__ import annotations

import json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

HEADER = (
    "[transcript v1] The lines below are the earlier conversation in this session, oldest first."
    " They are already answered: take them as context for the message that follows."
)
END = "[end of transcript]"
ROLES = ("user", "assistant", "tool")


class TranscriptError(ValueError):
    """A message cannot be put into a transcript, because its role is unknown."""

    def __init__(self, role: str) -> None:
        super().__init__(f"a transcript has no role {role!r}; it knows {', '.join(ROLES)}")
        self.role = role


def build_transcript(messages: Iterable[tuple[str, str]]) -> str:
    """Return the preamble block for (role, text) messages, oldest first. Raises `TranscriptError`."""
    return "\n".join([HEADER, *(_line(role, text) for role, text in messages), END])


def parse_transcript(block: str) -> list[tuple[str, str]] | None:
    """Return the messages of a preamble block, or None when the block is not exactly one."""
    lines = block.rstrip("\n").split("\n")
    if len(lines) < 2 or lines[0] != HEADER or lines[-1] != END:
        return None
    messages = [_message(line) for line in lines[1:-1]]
    found = [message for message in messages if message is not None]
    return found if len(found) == len(messages) else None


def _line(role: str, text: str) -> str:
    if role not in ROLES:
        raise TranscriptError(role)
    # A lone surrogate has no UTF-8 form; later it would raise, or make an agent exit.
    clean = text.encode("utf-8", "replace").decode("utf-8")
    return f"{role}: {json.dumps(clean, ensure_ascii=False)}"


def _message(line: str) -> tuple[str, str] | None:
    role, separator, quoted = line.partition(": ")
    if not separator or role not in ROLES:
        return None
    try:
        text = json.loads(quoted)
    except (ValueError, RecursionError):
        return None
    return (role, text) if isinstance(text, str) else None
