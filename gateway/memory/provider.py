"""The base class of every memory provider, built in or of another package.

Rules:
- Every method does nothing here, so a provider overrides only those that it needs.
- Methods are synchronous and may block: the hooks of one provider are called one after another, in a thread of its own.
  `prefetch` and the functions of `tools` are different: other threads call them, concurrently with the hooks.
- Texts are valid Unicode, of any length, and may be blank.
- Every call names its session and user. `user` keeps users apart: what was remembered for one is never offered to
  another. There is no "current" session: one provider serves all of them.
- An exception of a provider costs the call that raised it and one warning, nothing else.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, TypeAlias

from ostler.bridge.tool import Tool
from ostler.gateway.config.settings import MemorySettings


class Spoken(NamedTuple):
    """A message of a transcript."""

    role: str
    """One of user, assistant, tool, system."""
    text: str


@dataclass(frozen=True, slots=True)
class MemoryHome:
    """What the maker of a provider gets."""

    folder: Path
    """A folder private to the gateway's user. A provider keeps its files here, under its own name."""
    settings: MemorySettings
    wall: Callable[[], float]
    new_id: Callable[[str], str]
    """Makes a unique id with this prefix."""
    options: Mapping[str, str] = field(default_factory=dict)
    """The provider's table of `[memory.options]`."""


class MemoryProvider:
    """One memory. Subclass it, and name its maker in the entry point group `ostler.memory`."""

    def initialize(self) -> None:
        """Open what the provider needs. Always the first call; if it raises, no other call follows."""

    def close(self) -> None:
        """Write what is pending, and release everything. Always the last call."""

    def prefetch(self, question: str, *, session_id: str, user: str) -> str:
        """What is worth knowing for this question, one line per item; "" for nothing. The user waits for it."""
        del question, session_id, user
        return ""

    def queue_prefetch(self, question: str, *, session_id: str, user: str) -> None:
        """A turn with this question has ended: prepare for the next one. No turn waits for it."""

    def sync_turn(self, question: str, answer: str, *, session_id: str, user: str) -> None:
        """A turn was answered. No turn waits for this call."""

    def on_turn_start(self, question: str, *, session_id: str, user: str) -> None:
        """A turn begins. No turn waits for this call."""

    def on_session_end(self, transcript: Sequence[Spoken], *, session_id: str, user: str) -> None:
        """A session has ended for good; `transcript` is all of it. Called before the switch that follows."""

    def on_session_switch(
        self,
        new_session_id: str,
        *,
        parent_session_id: str = "",
        reset: bool = False,
        rewound: bool = False,
        **kwargs: object,
    ) -> None:
        """A conversation now writes to this session, or (`rewound`) turns of this session were undone.

        `kwargs` has `user` and, except for a rewind, `reason`: new_session, resume, branch or compression. More may be
        added.
        """

    def on_session_erased(self, session_id: str, *, user: str) -> None:
        """Delete everything that was remembered of this session, and never restore it."""
        del session_id, user

    def on_session_expired(self, session_id: str, *, user: str) -> None:
        """The text of this session was deleted, because nothing had led to it for long. Delete what repeats it; what
        was noted on purpose may stay."""
        del session_id, user

    def tools(self, *, session_id: str, user: str) -> Sequence[Tool]:
        """Tools for the agent, bound to this session and user. Called often, so it must be fast and must not block."""
        del session_id, user
        return ()


MakeProvider: TypeAlias = Callable[[MemoryHome], MemoryProvider]
"""The type of `PROVIDER` in each module here, and of the objects in the entry point group `ostler.memory`."""
