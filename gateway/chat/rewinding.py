"""How far back to go, and what a summary takes the place of. Pure: decides over transcripts, changes none.

Rules:
- A turn is a message of the user and everything up to the next one. What was there before the first one (a summary, an
  instruction) belongs to no turn and is never taken back.
- More turns than there are means all of them; fewer than one means one; what is no whole number is no number.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from ostler.gateway.model.records import MessageRecord, Role

FEWEST = 4
"""Messages below which there is nothing worth summarising."""
KEPT_TURNS = 2
"""Turns that stay as they are behind a summary, if that leaves something to summarise."""


def turns_wanted(typed: str) -> int | None:
    """How many turns; None for what is no whole number."""
    words = typed.split()
    if not words:
        return 1
    bare = words[0].removeprefix("-").removeprefix("+")
    if len(words) > 1 or not (bare.isascii() and bare.isdigit()):
        return None
    # So long a number means all anyway, and int() is slow, then refuses, for thousands of digits.
    return 1 if words[0].startswith("-") else max(1, int(bare[:9]))


def questions(messages: Sequence[MessageRecord]) -> list[MessageRecord]:
    """Where the turns begin."""
    return [message for message in messages if message.role == Role.USER]


def first_undone(messages: Sequence[MessageRecord], turns: int) -> MessageRecord | None:
    """The message from which on all is taken back; None where there is no turn."""
    begun = questions(messages)
    return begun[-min(turns, len(begun))] if begun else None


@dataclass(frozen=True, slots=True)
class Cut:
    """A transcript in two: what is summarised and what is kept."""

    old: tuple[MessageRecord, ...]
    kept: tuple[MessageRecord, ...]


def cut(messages: Sequence[MessageRecord]) -> Cut | None:
    """None where it is too short."""
    if len(messages) < FEWEST:
        return None
    begun = questions(messages)
    for turns in range(min(KEPT_TURNS, len(begun)), 0, -1):
        place = messages.index(begun[-turns])
        if place >= FEWEST // 2:
            return Cut(tuple(messages[:place]), tuple(messages[place:]))
    return Cut(tuple(messages), ())
