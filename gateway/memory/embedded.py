"""The memory that needs no configuration: facts that the agent notes with its tools, and what the user said in other
sessions, found by their words and kept in `memory.db` beside the store.

Rules:
- The memory has a file of its own: it can be inspected, copied or deleted without touching a conversation.
- It offers notes that match the question, only to the user they belong to, and no sayings of the session itself: the
  agent knows those.
- A question of a turn in which a note was forgotten is not kept either: it repeats what should be forgotten.
- A session whose text has expired leaves its facts, not its sayings.
- Turns that were undone (`/undo`) are not kept. A provider is not told which turns those were, so all sayings of the
  session are removed; they come back from the transcript when the session ends.
"""

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Annotated, Final

from ostler.bridge.tool import Tool, ToolError, tool
from ostler.gateway.memory.notebook import Notebook, NoteKind, StoredNote, meaningful
from ostler.gateway.memory.provider import MemoryHome, MemoryProvider, Spoken
from ostler.wire.json import JsonObject

FILE: Final = "memory.db"
OFFERED: Final = 6
RECALLED: Final = 10
FEWEST_WORDS: Final = 2
"""A saying with fewer meaningful words is small talk and not kept."""


class NotReady(ToolError):
    def __init__(self) -> None:
        super().__init__("the memory is not open; try again later")


class EmbeddedMemory(MemoryProvider):
    """Keeps the notes of all users, separated by user."""

    def __init__(self, home: MemoryHome) -> None:
        self._home = home
        self._open: Notebook | None = None
        self._forgetting: set[str] = set()
        """Sessions in whose running turn a note was forgotten."""

    @property
    def _book(self) -> Notebook:
        if self._open is None:
            raise NotReady
        return self._open

    def initialize(self) -> None:
        self._open = Notebook(self._home.folder / FILE, self._home.wall)

    def close(self) -> None:
        book, self._open = self._open, None
        if book is not None:
            book.close()

    def prefetch(self, question: str, *, session_id: str, user: str) -> str:
        notes = self._book.search(question, user=user, limit=OFFERED, besides=session_id)
        return "\n".join(map(line_of, notes))

    def on_turn_start(self, question: str, *, session_id: str, user: str) -> None:
        del question, user
        # The last turn was cancelled or failed, so its question was not kept anyway; what it forgot does not concern
        # this one.
        self._forgetting.discard(session_id)

    def sync_turn(self, question: str, answer: str, *, session_id: str, user: str) -> None:
        del answer
        if session_id in self._forgetting:
            self._forgetting.discard(session_id)
            self._book.shun(question, user=user)
        else:
            self._hear(question, session_id, user)

    def on_session_end(self, transcript: Sequence[Spoken], *, session_id: str, user: str) -> None:
        self._forgetting.discard(session_id)
        for message in transcript:
            if message.role == "user":
                self._hear(message.text, session_id, user)

    def on_session_erased(self, session_id: str, *, user: str) -> None:
        del user
        self._forgetting.discard(session_id)
        self._book.erase([session_id])

    def on_session_expired(self, session_id: str, *, user: str) -> None:
        del user
        self._forgetting.discard(session_id)
        self._book.erase([session_id], facts=False)

    def on_session_switch(
        self,
        new_session_id: str,
        *,
        parent_session_id: str = "",
        reset: bool = False,
        rewound: bool = False,
        **kwargs: object,
    ) -> None:
        del parent_session_id, reset, kwargs
        if rewound:
            self._book.take_back(new_session_id)

    def tools(self, *, session_id: str, user: str) -> Sequence[Tool]:
        @tool(timeout=10)
        def remember(fact: Annotated[str, "one fact, in a sentence that is clear without this conversation"]) -> str:
            """Write down a fact about the user or their work, to be known in later conversations."""
            if not fact.strip():
                raise ToolError("there is nothing to remember")
            number = self._book.keep(NoteKind.FACT, fact, session_id=session_id, user=user)
            return f"remembered as note {number}"

        @tool(timeout=10)
        def recall(query: Annotated[str, "words to look for"]) -> list[JsonObject]:
            """Look for what was remembered or said in earlier conversations with this user."""
            return [told(note) for note in self._book.search(query, user=user, limit=RECALLED)]

        @tool(timeout=10)
        def forget(note: Annotated[int, "the number of a note, from recall or remember"]) -> str:
            """Remove a note that is wrong or no longer wanted."""
            if not self._book.forget(note, user=user):
                raise ToolError(f"there is no note {note}")
            self._forgetting.add(session_id)
            return f"note {note} is forgotten"

        return (remember, recall, forget)

    def _hear(self, text: str, session_id: str, user: str) -> None:
        if len(meaningful(text)) >= FEWEST_WORDS:
            self._book.keep(NoteKind.SAYING, text, session_id=session_id, user=user)


def line_of(note: StoredNote) -> str:
    """The note on one line, for the prompt."""
    words = " ".join(note.text.split())
    return words if note.kind == NoteKind.FACT else f"(said on {day_of(note)}) {words}"


def told(note: StoredNote) -> JsonObject:
    """The note as the agent's tools return it."""
    return {"note": note.id, "kind": note.kind, "on": day_of(note), "text": note.text}


def day_of(note: StoredNote) -> str:
    return datetime.fromtimestamp(note.created_at, UTC).date().isoformat()


PROVIDER: Final = EmbeddedMemory
