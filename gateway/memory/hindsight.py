"""Memory in a Hindsight server (`ostler[hindsight]`): turns are sent in batches, one document for each chapter of a
session and one bank for each user.

Rules:
- A chapter is a stretch of a session between two switches. Its turns are collected and sent together, appended to the
  chapter's document. A switch opens a new chapter with a new document and no turns. What earlier chapters have
  collected goes to their own documents, never to the new one.
- Undone turns that were not yet sent are dropped. A provider is not told which turns those were, so all are dropped.
- A batch that could not be sent stays in its chapter, up to a limit. A closed chapter is kept until all of it was
  sent: after each successful sending the oldest of them are tried again, until one fails.
- What was not sent of an erased session is dropped. What was sent stays in Hindsight.
- Banks keep users apart: a question is asked only in its user's bank.
- `initialize` imports the client: the import takes half a second, which only its users should pay.
"""

from collections import OrderedDict
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from ostler.gateway.memory.outside import OwnLoop, T, name_for
from ostler.gateway.memory.provider import MemoryHome, MemoryProvider, Spoken

if TYPE_CHECKING:
    from hindsight_client import Hindsight

AGENT: Final = "ostler"
MOST_CHAPTERS: Final = 1000
"""Open chapters, and as many closed ones."""
MOST_KEPT: Final = 100
"""Turns that a chapter keeps while the server is unreachable."""
QUESTION_LIMIT: Final = 1500
RECALL_TOKENS: Final = 1024


@dataclass
class Chapter:
    """A stretch of a session, from one switch to the next."""

    session_id: str
    document_id: str
    user: str
    parent: str = ""
    """The session that this one continues."""
    gathered: list[str] = field(default_factory=list)


class HindsightMemory(MemoryProvider):
    """Sends the turns of all users, each to the user's own bank."""

    _client: "Hindsight"
    _loop: OwnLoop

    def __init__(self, home: MemoryHome) -> None:
        self._settings = home.settings.hindsight
        self._new_id = home.new_id
        self._chapters: OrderedDict[str, Chapter] = OrderedDict()
        self._closed: list[Chapter] = []
        """Chapters that no turn is added to, with turns that were not sent yet."""

    def initialize(self) -> None:
        from hindsight_client import Hindsight  # noqa: PLC0415 - an optional library, and a slow one

        settings = self._settings
        self._loop = OwnLoop("ostler-memory-hindsight-loop")
        self._client = Hindsight(settings.url, settings.api_key, settings.timeout, user_agent=AGENT)

    def close(self) -> None:
        try:
            for session_id in list(self._chapters):
                self._close_chapter(session_id)
            self._send_closed(last=True)
        finally:
            self._run(self._client.aclose())
            self._loop.close()

    def chapter(self, session_id: str, user: str) -> Chapter:
        """The current chapter of a session; begins one if there is none."""
        found = self._chapters.get(session_id)
        if found is None:
            found = self._chapters[session_id] = self._fresh(session_id, user)
        self._chapters.move_to_end(session_id)
        return found

    def prefetch(self, question: str, *, session_id: str, user: str) -> str:
        from hindsight_client_api.exceptions import NotFoundException  # noqa: PLC0415 - see `initialize`

        del session_id
        words = question[:QUESTION_LIMIT]
        try:
            found = self._run(self._client.arecall(self._bank(user), words, max_tokens=RECALL_TOKENS, budget="low"))
        except NotFoundException:  # no bank yet: this user has said nothing so far
            return ""
        return "\n".join(" ".join(result.text.split()) for result in found.results)

    def sync_turn(self, question: str, answer: str, *, session_id: str, user: str) -> None:
        chapter = self.chapter(session_id, user)
        chapter.gathered.append(f"user: {question}\nassistant: {answer}")
        del chapter.gathered[:-MOST_KEPT]
        if len(chapter.gathered) >= self._settings.retain_every:
            self._send(chapter)
            self._send_closed()
        elif len(self._chapters) > MOST_CHAPTERS:
            self._close_chapter(next(iter(self._chapters)))
            self._send_closed()

    def on_session_end(self, transcript: Sequence[Spoken], *, session_id: str, user: str) -> None:
        del transcript, user
        self._close_chapter(session_id)
        self._send_closed()

    def on_session_erased(self, session_id: str, *, user: str) -> None:
        del user
        self._drop(session_id)

    def on_session_switch(
        self,
        new_session_id: str,
        *,
        parent_session_id: str = "",
        reset: bool = False,
        rewound: bool = False,
        **kwargs: object,
    ) -> None:
        del reset
        before = self._chapters.get(new_session_id)
        parent = parent_session_id or (before.parent if before else "")
        if rewound:
            self._drop(new_session_id)
        else:
            self._close_chapter(new_session_id)
            self._close_chapter(parent_session_id)
        self._chapters[new_session_id] = self._fresh(new_session_id, str(kwargs.get("user", "")), parent)
        # Send last, with the new chapter open: an unreachable server must not keep us in the old chapter.
        self._send_closed()

    def _fresh(self, session_id: str, user: str, parent: str = "") -> Chapter:
        return Chapter(session_id, self._new_id("doc"), user, parent)

    def _close_chapter(self, session_id: str) -> None:
        chapter = self._chapters.pop(session_id, None)
        if chapter is not None and chapter.gathered:
            self._closed.append(chapter)
            del self._closed[:-MOST_CHAPTERS]

    def _drop(self, session_id: str) -> None:
        self._chapters.pop(session_id, None)
        self._closed = [chapter for chapter in self._closed if chapter.session_id != session_id]

    def _send_closed(self, *, last: bool = False) -> None:
        """Send the closed chapters, until one fails: it is tried again after the others. If this is the last chance,
        try each. The error is raised."""
        failed: Exception | None = None
        for chapter in list(self._closed):
            del self._closed[0]
            try:
                self._send(chapter)
            except Exception as error:  # noqa: BLE001 - raised below, with the chapter kept
                self._closed.append(chapter)
                failed = error
                if not last:
                    break
        if failed is not None:
            raise failed

    def _send(self, chapter: Chapter) -> None:
        batch = list(chapter.gathered)
        about = {"session_id": chapter.session_id, **({"parent_session_id": chapter.parent} if chapter.parent else {})}
        item: dict[str, object] = {
            "content": "\n\n".join(batch),
            "context": "a conversation between a user and an assistant",
            "document_id": chapter.document_id,
            "update_mode": "append",
            "metadata": about,
        }
        self._run(self._client.aretain_batch(self._bank(chapter.user), [item], retain_async=True))
        del chapter.gathered[: len(batch)]

    def _run(self, work: Coroutine[Any, Any, T]) -> T:
        return self._loop.run(work, self._settings.timeout)

    def _bank(self, user: str) -> str:
        return name_for(self._settings.bank, user)


PROVIDER: Final = HindsightMemory
