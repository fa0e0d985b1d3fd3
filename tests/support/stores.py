"""Every kind of store, and words for what tests put into one."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from ostler.gateway.model.records import MessageRecord, NewMessage, NewSession, ResponseRecord
from ostler.gateway.model.store import Store
from ostler.gateway.stores.sqlite import SqliteStore
from ostler.gateway.stores.sqlite.file import SqliteSettings

FEW_RESPONSES = 100
FEW_BYTES = 100_000


@dataclass
class Clock:
    """A wall clock that tests set."""

    now: float = 1_000_000.0

    def __call__(self) -> float:
        return self.now


@dataclass
class Place:
    """Where a store of one kind keeps its data: opening it again is what a restart does."""

    kind: str
    opening: Callable[[Path, Clock], Awaitable[Store]]
    folder: Path
    clock: Clock = field(default_factory=Clock)

    async def open(self) -> Store:
        return await self.opening(self.folder, self.clock)

    @asynccontextmanager
    async def opened(self) -> AsyncIterator[Store]:
        store = await self.open()
        try:
            yield store
        finally:
            await store.aclose()


async def open_sqlite(folder: Path, clock: Clock) -> Store:
    settings = SqliteSettings(responses_max=FEW_RESPONSES, responses_bytes_max=FEW_BYTES, lock_wait=5.0)
    return await SqliteStore.open(folder / "ostler.db", settings=settings, clock=clock)


KINDS = {"sqlite": open_sqlite}


async def lead(store: Store, slug: str, session_id: str, owner: str = "") -> None:
    """Lead the slug to this session, as a command does."""
    found = await store.get_conversation(slug, owner=owner)
    left = None if found is None else found.session_id
    assert await store.move_conversation(slug, left, session_id, owner=owner)


async def those_kept(store: Store, *response_ids: str, owner: str = "") -> list[str]:
    """Those of the responses that the store has. Each counts as used."""
    return [each for each in response_ids if await store.get_response(each, owner=owner) is not None]


def said(text: str, role: str = "user", **facts: str) -> NewMessage:
    """A message of one text."""
    return NewMessage(role, [{"type": "input_text", "text": text}], text, facts.get("response_id"))


def texts(messages: list[MessageRecord]) -> list[str]:
    return [message.text for message in messages]


def response(ident: str, session_id: str = "sess_p", **facts: str) -> ResponseRecord:
    body = {"id": ident, "object": "response", "pad": facts.get("pad", "")}
    return ResponseRecord(ident, session_id, facts.get("owner", ""), facts.get("status", "completed"), body)


async def with_turns(store: Store, session_id: str, turns: int, **facts: str) -> list[int]:
    """A session with so many turns: u1 a1 u2 a2 and so on; the ids of its messages."""
    await store.create_session(NewSession(session_id, **facts))
    spoken = [said(f"{who}{n}", role) for n in range(1, turns + 1) for who, role in (("u", "user"), ("a", "assistant"))]
    return await store.append(session_id, spoken)
