"""Messages: appending, reading, and rewriting a transcript, each in one transaction.

No rewrite deletes a message: a message that leaves the transcript becomes inactive. The statements that change messages
also maintain `message_count` of the session.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ostler.gateway.model.errors import NoSuchSession, UnknownMessage
from ostler.gateway.model.records import MessageCounts, MessageRecord, NewMessage
from ostler.gateway.stores.sqlite.connection import Connection, SqlRow, all_rows, one_row, run
from ostler.gateway.stores.sqlite.json import read_objects, storable, write_json

COLUMNS = "m.id, m.session_id, m.role, m.items, m.text, m.response_id, m.created_at, m.active, m.compacted"
INSERT = "INSERT INTO messages (session_id, role, items, text, response_id, created_at) VALUES (?, ?, ?, ?, ?, ?)"
GROWN = (
    "UPDATE sessions SET message_count = message_count + ?, activity = ?, last_active_at = max(last_active_at, ?) "
    "WHERE id = ?"
)
ACTIVE = "session_id = ? AND active = 1"


@dataclass(frozen=True, slots=True)
class Written:
    """A message with its JSON encoded, ready for a row."""

    role: str
    items: str
    text: str
    response_id: str | None
    created_at: float


def written(messages: Iterable[NewMessage], now: float) -> list[Written]:
    """Encode messages, in the caller's thread."""
    return [
        Written(
            str(message.role),
            write_json(list(message.items)),
            storable(message.text),
            message.response_id,
            now if message.created_at is None else message.created_at,
        )
        for message in messages
    ]


def record(row: SqlRow) -> MessageRecord:
    ident, session_id, role, items, text, response_id, created_at, active, compacted = row
    said = read_objects(items)
    return MessageRecord(ident, session_id, role, said, text, response_id, created_at, bool(active), bool(compacted))


def append(db: Connection, session_id: str, messages: Sequence[Written], now: float) -> list[int]:
    ids = []
    for said in messages:
        db.execute(INSERT, (session_id, said.role, said.items, said.text, said.response_id, said.created_at))
        ids.append(db.last_insert_rowid())
    if ids:
        db.execute(GROWN, (len(ids), ids[-1], now, session_id))
        if not db.changes():
            raise NoSuchSession(session_id)
    else:
        require_session(db, session_id)
    return ids


def require_session(db: Connection, session_id: str) -> None:
    if one_row(db, "SELECT 1 FROM sessions WHERE id = ?", (session_id,)) is None:
        raise NoSuchSession(session_id)


def history(db: Connection, session_id: str, last: int | None, after: int = 0) -> list[MessageRecord]:
    sql = f"SELECT {COLUMNS} FROM messages m WHERE {ACTIVE} AND id > ? ORDER BY id"
    if last is None:
        return [record(row) for row in all_rows(db, sql, (session_id, after))]
    return [record(row) for row in reversed(all_rows(db, sql + " DESC LIMIT ?", (session_id, after, last)))]


def page(db: Connection, session_id: str, limit: int, *, newest: bool, after: int | None) -> list[MessageRecord] | None:
    start = (2**63 - 1 if newest else -1) if after is None else after
    if (
        after is not None
        and one_row(db, f"SELECT 1 FROM messages WHERE {ACTIVE} AND id = ?", (session_id, after)) is None
    ):
        return None
    beyond = "id < ? ORDER BY id DESC" if newest else "id > ? ORDER BY id"
    sql = f"SELECT {COLUMNS} FROM messages m WHERE {ACTIVE} AND {beyond} LIMIT ?"
    return [record(row) for row in all_rows(db, sql, (session_id, start, limit))]


def audit(db: Connection, session_id: str) -> list[MessageRecord]:
    sql = f"SELECT {COLUMNS} FROM messages m WHERE session_id = ? ORDER BY id"
    return [record(row) for row in all_rows(db, sql, (session_id,))]


def counts(db: Connection, session_id: str) -> MessageCounts:
    (row,) = all_rows(
        db,
        "SELECT ifnull(sum(active), 0), ifnull(sum(active AND role = 'user'), 0), "
        "ifnull(sum(compacted AND NOT active), 0), ifnull(sum(NOT active AND NOT compacted), 0) "
        "FROM messages WHERE session_id = ?",
        (session_id,),
    )
    return MessageCounts(*row)


def deactivate_from(db: Connection, session_id: str, message_id: int) -> list[MessageRecord]:
    sql = f"SELECT {COLUMNS} FROM messages m WHERE {ACTIVE} AND id >= ? ORDER BY id"
    gone = [record(row) for row in all_rows(db, sql, (session_id, message_id))]
    if not gone or gone[0].id != message_id:
        raise UnknownMessage(session_id, message_id)
    run(db, f"UPDATE messages SET active = 0 WHERE {ACTIVE} AND id >= ?", (session_id, message_id))
    _shrink(db, session_id, len(gone))
    return gone


def deactivate(db: Connection, session_id: str, message_ids: Sequence[int]) -> int:
    sql = f"UPDATE messages SET active = 0 WHERE {ACTIVE} AND id = ?"
    gone = sum(run(db, sql, (session_id, message_id)) for message_id in message_ids)
    _shrink(db, session_id, gone)
    return gone


def rewrite(db: Connection, session_id: str, messages: Sequence[Written], now: float) -> list[int]:
    _shrink(db, session_id, run(db, f"UPDATE messages SET active = 0 WHERE {ACTIVE}", (session_id,)))
    return append(db, session_id, messages, now)


def copied(db: Connection, session_id: str, behind: int = 0) -> list[Written]:
    """The transcript, or the part after message `behind`, ready to be stored in another session."""
    sql = f"SELECT role, items, text, response_id, created_at FROM messages WHERE {ACTIVE} AND id > ? ORDER BY id"
    return [Written(*row) for row in all_rows(db, sql, (session_id, behind))]


def _shrink(db: Connection, session_id: str, by: int) -> None:
    run(db, "UPDATE sessions SET message_count = message_count - ? WHERE id = ?", (by, session_id))
