"""Sessions as lines of JSON, out of a store and into one.

Rules:
- A session is one line (`"object": "session"`), then a line for each message of its transcript. A bare file of message
  lines, which is what a mirror is, belongs to the session that the file is called after.
- Bringing in is healing: what a session has already is not stored twice, what it lacks is put in its place, and what it
  holds as undone does not come back. The same file twice changes nothing the second time.
- A session was last active when it was, not when it was brought in.
- A line that cannot be read is counted, never fatal.
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
    """What came in."""

    sessions: int = 0
    created: int = 0
    """Those of them that were not here."""
    messages: int = 0
    unreadable: int = 0
    titles_taken: list[str] = field(default_factory=list)
    """Sessions that stay without the title they had, because another one has it here."""


@dataclass
class Bundle:
    """A session and its messages, as read from lines."""

    session: NewSession
    title: str | None = None
    ended: str | None = None
    finalized: bool = False
    """Whether nothing is left to be done about the end of it."""
    last_active: float | None = None
    messages: list[NewMessage] = field(default_factory=list)

    def active_until(self) -> float | None:
        """When it was last active: as it says, else when its last message was said."""
        moments = [message.created_at for message in self.messages if message.created_at]
        return self.last_active if self.last_active is not None else max(moments, default=None)


def session_facts(session: SessionRecord) -> JsonObject:
    """A session for people and tools."""
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
    """Every line of these sessions."""
    for session in sessions:
        yield encode_line(session_facts(session))
        for message in await store.history(session.id):
            yield line_of(message)


def bundles(lines: Iterable[bytes], named: str | None, brought: Brought) -> Iterator[Bundle]:
    """The sessions of a file; `named` is the session of messages that stand before any."""
    bundle = None if named is None else Bundle(NewSession(named))
    for line in filter(bytes.strip, lines):
        started = _session_of(line)
        if started is not None:
            if bundle is not None and (bundle.messages or bundle.session.id != named):
                yield bundle
            bundle = started
            continue
        message = message_of(line)
        if message is None or bundle is None:
            brought.unreadable += 1
        else:
            bundle.messages.append(message)
    if bundle is not None and (bundle.messages or bundle.session.id != named):
        yield bundle


async def bring_in(store: Store, bundle: Bundle, brought: Brought) -> None:
    """Make the session where it is not, and put in what it lacks."""
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
    """Whether the expiry of a session was dealt with. An early version called the mark `memory_flushed`; only where the
    new name is missing does the old one count, and it is never written."""
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
