"""Export sessions from a store as lines of JSON, and import them into one.

Rules:
- A session is one line (`"object": "session"`), then a line for each message of its transcript. A bare file of message
  lines, as the mirror writes them, belongs to the session that the file is named after.
- Importing heals: a message that the session already has is not stored twice, a missing one is put in its place, and
  one that the session holds as undone does not come back. Importing the same file a second time changes nothing.
- An imported session keeps the time of its last activity; the time of the import does not count.
- A line that cannot be read is counted and skipped; it is never fatal.
"""

from collections.abc import AsyncIterator, Iterable, Iterator
from dataclasses import dataclass, field

from ostler.gateway.model.errors import TitleTaken
from ostler.gateway.model.records import NewMessage, NewSession, SessionChange, SessionRecord
from ostler.gateway.model.store import Store
from ostler.gateway.stores.healing import put_back
from ostler.gateway.stores.mirror import line_of, message_of
from ostler.wire.json import JsonObject, Undecodable, decode, encode_line

FACTS = ("key", "platform", "owner", "chat", "parent_id", "origin", "model", "cwd", "instructions")


@dataclass
class Brought:
    """What an import did, in numbers."""

    sessions: int = 0
    created: int = 0
    """How many of `sessions` did not exist here before."""
    messages: int = 0
    unreadable: int = 0
    titles_taken: list[str] = field(default_factory=list)
    """Ids of sessions that were left without their title, because another session has it here."""


@dataclass
class Bundle:
    """A session and its messages, as read from a file."""

    session: NewSession
    title: str | None = None
    ended: str | None = None
    finalized: bool = False
    """Whether the end of the session has been processed (`SessionRecord.expiry_finalized`)."""
    last_active: float | None = None
    messages: list[NewMessage] = field(default_factory=list)

    def active_until(self) -> float | None:
        """When the session was last active: the time in its line, else the time of its newest message."""
        moments = [message.created_at for message in self.messages if message.created_at]
        return self.last_active if self.last_active is not None else max(moments, default=None)


def session_facts(session: SessionRecord) -> JsonObject:
    """The line of a session, without its messages."""
    facts: JsonObject = {"object": "session", "id": session.id, "title": session.title}
    facts |= {name: getattr(session, name) for name in FACTS}
    return facts | {
        "metadata": session.metadata,
        "created_at": session.created_at,
        "last_active_at": session.last_active_at,
        "ended_at": session.ended_at,
        "end_reason": session.end_reason,
        "expiry_finalized": session.expiry_finalized,
        "message_count": session.message_count,
    }


async def lines_out(store: Store, sessions: Iterable[SessionRecord]) -> AsyncIterator[bytes]:
    """Yield the lines of these sessions and their messages."""
    for session in sessions:
        yield encode_line(session_facts(session))
        for message in await store.history(session.id):
            yield line_of(message)


def bundles(lines: Iterable[bytes], named: str | None, brought: Brought) -> Iterator[Bundle]:
    """Parse the sessions of a file. Messages before the first session line belong to the session `named`."""
    unsaid = None if named is None else Bundle(NewSession(named))
    bundle = unsaid
    for line in filter(bytes.strip, lines):
        started = _session_of(line)
        if started is not None:
            if bundle is not None and (bundle.messages or bundle is not unsaid):
                yield bundle
            bundle = started
            continue
        message = message_of(line)
        if message is None or bundle is None:
            brought.unreadable += 1
        else:
            bundle.messages.append(message)
    if bundle is not None and (bundle.messages or bundle is not unsaid):
        yield bundle


async def bring_in(store: Store, bundle: Bundle, brought: Brought) -> None:
    """Create the session if the store lacks it, and add the messages it lacks."""
    known = await store.get_session(bundle.session.id)
    session = await store.create_session(bundle.session)
    missing = await put_back(store, session.id, bundle.messages)
    brought.sessions += 1
    brought.created += known is None
    brought.messages += missing
    if bundle.title is not None and session.title is None:
        try:
            await store.set_title(session.id, bundle.title)
        except TitleTaken:
            brought.titles_taken.append(session.id)
    if known is None and bundle.ended is not None:
        await store.end_session(session.id, bundle.ended)
    if known is None and bundle.finalized:
        await store.update_session(session.id, SessionChange(expiry_finalized=True))
    moments = [bundle.active_until(), None if known is None else known.last_active_at]
    active = max((moment for moment in moments if moment is not None), default=None)
    if active is not None and (known is None or missing):
        await store.update_session(session.id, SessionChange(last_active_at=active))


def finalized_in(entry: JsonObject) -> bool:
    """Whether the end of a session has been processed. An early version called this fact `memory_flushed`; the old name
    counts only if the new one is missing, and it is never written."""
    return entry.get("expiry_finalized", entry.get("memory_flushed")) is True


def _session_of(line: bytes) -> Bundle | None:
    try:
        found = decode(line)
    except Undecodable:
        return None
    if not isinstance(found, dict) or found.get("object") != "session" or not isinstance(found.get("id"), str):
        return None
    facts = {name: _text(found, name) for name in FACTS}
    metadata, created, active = (found.get(name) for name in ("metadata", "created_at", "last_active_at"))
    session = NewSession(
        found["id"],
        **facts,
        metadata=metadata if isinstance(metadata, dict) and metadata else None,
        created_at=float(created) if isinstance(created, int | float) else None,
    )
    last_active = float(active) if isinstance(active, int | float) else None
    return Bundle(session, _text(found, "title"), _text(found, "end_reason"), finalized_in(found), last_active)


def _text(found: JsonObject, name: str) -> str | None:
    value = found.get(name)
    return value if isinstance(value, str) else None
