"""The memory that is there without any configuration: facts that the agent writes down by its tools, and what the user
said in other sessions, found again by their words and kept in `memory.db` beside the store.

Rules:
- A file of its own: it can be looked at, copied or thrown away without touching a conversation.
- It offers what has to do with the question, to the user it was kept for, and never what the session itself has said:
  the agent knows that.
- What the user asks to be forgotten in is not kept either: it says again what is to go.
- What was taken back (`/undo`) is not kept. Which turns those were nobody tells, so all sayings of the session go, and
  come back from the transcript when the session ends.
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
"""A saying with fewer words that mean something is small talk."""


class NotReady(ToolError):
    def __init__(self) -> None:
        super().__init__("the memory is not open; try again later")


class EmbeddedMemory(MemoryProvider):
    """Of all users, each by itself."""

    def __init__(self, home: MemoryHome) -> None:
        self._home = home
        self._open: Notebook | None = None
        self._forgetting: set[str] = set()
        """Sessions in whose running turn something was forgotten."""

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
        # What the turn before forgot was a matter of its own question; it was cancelled or failed, and is not told.
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
    """For the prompt: one line."""
    words = " ".join(note.text.split())
    return words if note.kind == NoteKind.FACT else f"(said on {day_of(note)}) {words}"


def told(note: StoredNote) -> JsonObject:
    """For the agent."""
    return {"note": note.id, "kind": note.kind, "on": day_of(note), "text": note.text}


def day_of(note: StoredNote) -> str:
    return datetime.fromtimestamp(note.created_at, UTC).date().isoformat()


PROVIDER: Final = EmbeddedMemory
