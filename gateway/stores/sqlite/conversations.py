"""Slugs of the OpenAI API and the sessions they lead to. A slug is removed only by an explicit request to delete it."""

from collections.abc import Sequence
from dataclasses import dataclass

from ostler.gateway.model import continuity
from ostler.gateway.model.records import ConversationRecord, NewSession
from ostler.gateway.stores.sqlite import messages, sessions
from ostler.gateway.stores.sqlite.connection import Connection, SqlRow, all_rows, one_row, run
from ostler.gateway.stores.sqlite.json import read_object
from ostler.gateway.stores.sqlite.messages import Written
from ostler.wire.json import JsonObject

COLUMNS = "slug, owner, session_id, response_id, metadata, created_at, updated_at"
SET = (
    "INSERT INTO conversations (slug, owner, session_id, response_id, created_at, updated_at) "
    "VALUES (?1, ?2, ?3, ?4, ?5, ?5) ON CONFLICT (slug, owner) DO UPDATE SET "
    "session_id = ifnull(excluded.session_id, session_id), "
    "response_id = ifnull(excluded.response_id, response_id), updated_at = excluded.updated_at"
)


def record(row: SqlRow) -> ConversationRecord:
    metadata: JsonObject = read_object(row[4])
    return ConversationRecord(*(*row[:4], metadata, *row[5:]))


def get(db: Connection, slug: str, owner: str) -> ConversationRecord | None:
    row = one_row(db, f"SELECT {COLUMNS} FROM conversations WHERE slug = ? AND owner = ?", (slug, owner))
    return None if row is None else record(row)


@dataclass(frozen=True, slots=True)
class Lead:
    """Where a slug should lead. A field that is None leaves the stored value unchanged."""

    slug: str
    owner: str
    session_id: str | None
    response_id: str | None


def put(db: Connection, lead: Lead, now: float) -> ConversationRecord:
    sql = f"{SET} RETURNING {COLUMNS}"
    (row,) = all_rows(db, sql, (lead.slug, lead.owner, lead.session_id, lead.response_id, now))
    return record(row)


def note(db: Connection, lead: Lead, now: float) -> None:
    """At the end of a turn: store the response under the slug if the slug still leads to the turn's session."""
    found = get(db, lead.slug, lead.owner)
    session_id = str(lead.session_id)
    if continuity.turn_updates(None if found is None else continuity.ConversationName(found.session_id), session_id):
        put(db, lead, now)


def move(db: Connection, lead: Lead, left: str | None, now: float) -> bool:
    found = get(db, lead.slug, lead.owner)
    if not continuity.command_moves(None if found is None else continuity.ConversationName(found.session_id), left):
        return False
    put(db, lead, now)
    return True


def append(db: Connection, slug: str, owner: str, said: Sequence[Written], now: float) -> str | None:
    found = get(db, slug, owner)
    live = None if found is None or found.session_id is None else sessions.live_end(db, found.session_id)
    if live is None:
        return None
    messages.append(db, live.id, said, now)
    return live.id


def claim(db: Connection, slug: str, owner: str, session: NewSession, now: float) -> ConversationRecord:
    found = get(db, slug, owner)
    if found is not None and found.session_id is not None:
        return found
    sessions.create(db, session, now)
    return put(db, Lead(slug, owner, session.id, None), now)


def update(db: Connection, slug: str, owner: str, metadata: str, now: float) -> ConversationRecord | None:
    sql = "UPDATE conversations SET metadata = ?, updated_at = ? WHERE slug = ? AND owner = ?"
    run(db, sql, (metadata, now, slug, owner))
    return get(db, slug, owner)


def delete(db: Connection, slug: str, owner: str) -> bool:
    return run(db, "DELETE FROM conversations WHERE slug = ? AND owner = ?", (slug, owner)) > 0
