"""Sessions: create, update, end, reopen, list, and follow a compression to its live end."""

from collections.abc import Sequence

from ostler.gateway.model.errors import NoSuchSession
from ostler.gateway.model.records import (
    EXPIRIES,
    EndReason,
    NewSession,
    SessionChange,
    SessionOrigin,
    SessionQuery,
    SessionRecord,
)
from ostler.gateway.stores.sqlite.connection import Connection, SqlRow, all_rows, one_row, run
from ostler.gateway.stores.sqlite.json import read_object, write_json

COLUMNS = (
    "s.id, s.key, s.platform, s.owner, s.chat, s.title, s.parent_id, s.origin, s.model, s.cwd, s.instructions, "
    "s.metadata, s.created_at, s.last_active_at, s.ended_at, s.end_reason, s.expiry_finalized, s.message_count"
)
FILLED = ("key", "platform", "owner", "chat", "parent_id", "origin", "model", "cwd", "instructions", "metadata")
NEWEST = "(SELECT ifnull(max(id), 0) FROM messages)"
CREATE = (
    f"INSERT INTO sessions (id, {', '.join(FILLED)}, created_at, last_active_at, activity) "
    f"VALUES (?, {', '.join('?' * len(FILLED))}, ?, ?, {NEWEST}) "
    f"ON CONFLICT (id) DO UPDATE SET {', '.join(f'{name} = ifnull({name}, excluded.{name})' for name in FILLED)}"
)
MOST_GENERATIONS = 1_000


def record(row: SqlRow) -> SessionRecord:
    return SessionRecord(*(*row[:11], read_object(row[11]), *row[12:16], bool(row[16]), row[17]))


def get(db: Connection, session_id: str) -> SessionRecord | None:
    row = one_row(db, f"SELECT {COLUMNS} FROM sessions s WHERE s.id = ?", (session_id,))
    return None if row is None else record(row)


def require(db: Connection, session_id: str) -> SessionRecord:
    found = get(db, session_id)
    if found is None:
        raise NoSuchSession(session_id)
    return found


def create(db: Connection, new: NewSession, now: float) -> SessionRecord:
    moment = now if new.created_at is None else new.created_at
    metadata = None if new.metadata is None else write_json(new.metadata)
    facts = (new.key, new.platform, new.owner, new.chat, new.parent_id, new.origin, new.model, new.cwd)
    run(db, CREATE, (new.id, *facts, new.instructions, metadata, moment, moment))
    return require(db, new.id)


def update(db: Connection, session_id: str, change: SessionChange) -> SessionRecord:
    wanted = {
        "model": change.model,
        "cwd": change.cwd,
        "instructions": change.instructions,
        "metadata": None if change.metadata is None else write_json(change.metadata),
        "expiry_finalized": change.expiry_finalized,
        "last_active_at": change.last_active_at,
    }
    changed = {name: value for name, value in wanted.items() if value is not None}
    if changed:
        names = ", ".join(f"{name} = ?" for name in changed)
        run(db, f"UPDATE sessions SET {names} WHERE id = ?", (*changed.values(), session_id))
    return require(db, session_id)


def end(db: Connection, session_id: str, reason: str, now: float) -> bool:
    sql = "UPDATE sessions SET ended_at = ?, end_reason = ? WHERE id = ? AND ended_at IS NULL"
    return run(db, sql, (now, reason, session_id)) > 0


def reopen(db: Connection, session_id: str) -> bool:
    sql = (
        "UPDATE sessions SET ended_at = NULL, end_reason = NULL, expiry_finalized = 0 "
        "WHERE id = ? AND ended_at IS NOT NULL"
    )
    return run(db, sql, (session_id,)) > 0


def touch(db: Connection, session_id: str, now: float) -> None:
    """Mark a session as used when a user returns to it; otherwise its reset policy would end it before the first
    message."""
    run(db, "UPDATE sessions SET last_active_at = max(last_active_at, ?) WHERE id = ?", (now, session_id))


def conditions(query: SessionQuery) -> tuple[str, list[object]]:
    """A WHERE clause on the table `s`, and its values."""
    facts = {"platform": query.platform, "owner": query.owner, "chat": query.chat, "key": query.key}
    wanted = {name: value for name, value in facts.items() if value is not None}
    parts = [f"s.{name} = ?" for name in wanted]
    if query.titled is not None:
        parts.append(f"s.title IS {'NOT ' if query.titled else ''}NULL")
    if query.live is not None:
        parts.append(f"s.ended_at IS {'' if query.live else 'NOT '}NULL")
    return " AND ".join(parts) or "1", list(wanted.values())


def listed(db: Connection, query: SessionQuery, limit: int, offset: int) -> list[SessionRecord]:
    where, values = conditions(query)
    sql = f"SELECT {COLUMNS} FROM sessions s WHERE {where} ORDER BY s.activity DESC, s.seq DESC LIMIT ? OFFSET ?"
    return [record(row) for row in all_rows(db, sql, (*values, limit, offset))]


def expiring(
    db: Connection, before: float, only: str | None, besides: Sequence[str], limit: int
) -> list[SessionRecord]:
    where = "s.platform = ?" if only is not None else f"ifnull(s.platform, '') NOT IN ({', '.join('?' * len(besides))})"
    sql = (
        f"SELECT {COLUMNS} FROM sessions s WHERE s.key IS NOT NULL AND s.expiry_finalized = 0 "
        f"AND (s.ended_at IS NULL OR s.end_reason IN (?, ?)) AND s.last_active_at < ? AND {where} "
        "ORDER BY s.last_active_at, s.seq LIMIT ?"
    )
    named = besides if only is None else (only,)
    return [record(row) for row in all_rows(db, sql, (*EXPIRIES, before, *named, limit))]


def by_prefix(db: Connection, prefix: str, limit: int) -> list[SessionRecord]:
    # A range of the index instead of LIKE: `%` and `_` are ordinary characters here.
    sql = f"SELECT {COLUMNS} FROM sessions s WHERE s.id >= ? AND s.id < ? ORDER BY s.id LIMIT ?"
    return [record(row) for row in all_rows(db, sql, (prefix, prefix + "\U0010ffff", limit))]


def live_end(db: Connection, session_id: str) -> SessionRecord | None:
    found = get(db, session_id)
    for _ in range(MOST_GENERATIONS):
        if found is None or found.end_reason != EndReason.COMPRESSION:
            break
        child = one_row(
            db,
            f"SELECT {COLUMNS} FROM sessions s WHERE s.parent_id = ? AND s.origin = ? ORDER BY s.seq DESC LIMIT 1",
            (found.id, SessionOrigin.COMPRESSION),
        )
        if child is None:
            break
        found = record(child)
    return found


def lead_to_child(db: Connection, parent_id: str, child_id: str) -> None:
    """Make every key and slug of the parent lead to the child."""
    run(db, "UPDATE routing SET session_id = ? WHERE session_id = ?", (child_id, parent_id))
    run(db, "UPDATE conversations SET session_id = ? WHERE session_id = ?", (child_id, parent_id))


def of_rows(rows: Sequence[SqlRow]) -> list[SessionRecord]:
    return [record(row) for row in rows]
