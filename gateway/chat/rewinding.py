"""Decides how far an undo goes back, and which messages a summary replaces. Pure: changes no transcript.

Rules:
- A turn is a user message and everything up to the next one. Messages before the first one (a summary, an instruction)
  belong to no turn and are never taken back.
- A number above the number of turns means all turns; a number below one means one; anything else is invalid.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from ostler.gateway.model.records import MessageRecord, Role

FEWEST = 4
"""With fewer messages, there is nothing worth summarising."""
KEPT_TURNS = 2
"""How many turns stay unchanged after the summary, if enough is left to summarise."""


def turns_wanted(typed: str) -> int | None:
    """The number of turns that the user typed; None if it is not a whole number."""
    words = typed.split()
    if not words:
        return 1
    bare = words[0].removeprefix("-").removeprefix("+")
    if len(words) > 1 or not (bare.isascii() and bare.isdigit()):
        return None
    # A number this long means all turns anyway; int() is slow for thousands of digits, then refuses them.
    return 1 if words[0].startswith("-") else max(1, int(bare[:9]))


def questions(messages: Sequence[MessageRecord]) -> list[MessageRecord]:
    """The user messages; each begins a turn."""
    return [message for message in messages if message.role == Role.USER]


def first_undone(messages: Sequence[MessageRecord], turns: int) -> MessageRecord | None:
    """The first message to take back; None if there is no turn."""
    begun = questions(messages)
    return begun[-min(turns, len(begun))] if begun else None


@dataclass(frozen=True, slots=True)
class Cut:
    """A transcript in two parts: messages to summarise, and messages to keep."""

    old: tuple[MessageRecord, ...]
    kept: tuple[MessageRecord, ...]


def cut(messages: Sequence[MessageRecord]) -> Cut | None:
    """Split a transcript for a summary; None if it is too short."""
    if len(messages) < FEWEST:
        return None
    begun = questions(messages)
    for turns in range(min(KEPT_TURNS, len(begun)), 0, -1):
        place = messages.index(begun[-turns])
        if place >= FEWEST // 2:
            return Cut(tuple(messages[:place]), tuple(messages[place:]))
    return Cut(tuple(messages), ())
