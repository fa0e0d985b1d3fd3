"""What remembers: the class that every provider of memory extends, ours and those of other packages.

Rules:
- Every method does nothing here, so a provider has only those that it needs.
- Methods are plain and may block: the hooks of one provider are called one after another, in a thread of its own.
  `prefetch` and the functions of `tools` are not: they come from other threads, several at once, beside the hooks.
- Texts are sound Unicode, of any length, and may be blank.
- Every call says whose conversation it is about. `user` is the privacy gate: what was remembered for one is never told
  to another. There is no "current" session: one provider serves all of them.
- Whatever a provider raises costs the call that raised it, one warning, and nothing else.
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
    """user, assistant, tool or system."""
    text: str


@dataclass(frozen=True, slots=True)
class MemoryHome:
    """What a provider is made with."""

    folder: Path
    """Private to us; a provider keeps its files here, under its own name."""
    settings: MemorySettings
    wall: Callable[[], float]
    new_id: Callable[[str], str]
    """A fresh unique id with this prefix."""
    options: Mapping[str, str] = field(default_factory=dict)
    """The provider's part of `[memory.options]`."""


class MemoryProvider:
    """One memory. Extend it, and name what makes one in the entry point group `ostler.memory`."""

    def initialize(self) -> None:
        """Open what it needs. The first call of all; when it fails, the provider gets no other."""

    def close(self) -> None:
        """Write down what is still to be written, and let go. The last call."""

    def prefetch(self, question: str, *, session_id: str, user: str) -> str:
        """What is worth knowing for this question, one line for each thing; "" for nothing. The user waits for it."""
        del question, session_id, user
        return ""

    def queue_prefetch(self, question: str, *, session_id: str, user: str) -> None:
        """A turn has ended with this question: prepare for the next one. Nobody waits."""

    def sync_turn(self, question: str, answer: str, *, session_id: str, user: str) -> None:
        """A turn was answered. Nobody waits."""

    def on_turn_start(self, question: str, *, session_id: str, user: str) -> None:
        """A turn begins. Nobody waits."""

    def on_session_end(self, transcript: Sequence[Spoken], *, session_id: str, user: str) -> None:
        """A session has ended for good, and this is all of it. Comes before the switch that follows."""

    def on_session_switch(
        self,
        new_session_id: str,
        *,
        parent_session_id: str = "",
        reset: bool = False,
        rewound: bool = False,
        **kwargs: object,
    ) -> None:
        """A conversation writes to this session now, or (`rewound`) turns of this session were taken back.

        `kwargs` has `user` and, but for a rewind, `reason`: new_session, resume, branch or compression. More may come.
        """

    def on_session_erased(self, session_id: str, *, user: str) -> None:
        """Everything that was remembered of this session is to go, and not to come back."""
        del session_id, user

    def tools(self, *, session_id: str, user: str) -> Sequence[Tool]:
        """Tools for the agent, bound to this session and this user. Called often: quick, and it does not block."""
        del session_id, user
        return ()


MakeProvider: TypeAlias = Callable[[MemoryHome], MemoryProvider]
"""What the `PROVIDER` of a module here is, and what an entry point of the group `ostler.memory` names."""
