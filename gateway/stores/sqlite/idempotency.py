"""Answers to repeated requests, kept for some minutes and across a restart."""

from collections.abc import Sequence

from ostler.gateway.model.records import IdempotencyRecord
from ostler.gateway.stores.sqlite.connection import Connection, SqlRow, one_row, run
from ostler.gateway.stores.sqlite.json import read_pairs, write_json

COLUMNS = "key, owner, fingerprint, status, headers, body, expires_at"


def row_of(answer: IdempotencyRecord) -> SqlRow:
    headers = write_json([list(header) for header in answer.headers])
    facts = (answer.key, answer.owner, answer.fingerprint, answer.status)
    return (*facts, headers, answer.body, answer.expires_at)


def record(row: SqlRow) -> IdempotencyRecord:
    headers = tuple((str(name), str(value)) for name, value in read_pairs(row[4]))
    return IdempotencyRecord(*(*row[:4], headers, *row[5:]))


def remember(db: Connection, row: Sequence[object], now: float) -> IdempotencyRecord:
    """Store an answer and return the one in force: the first for its key, until it expires."""
    run(db, "DELETE FROM idempotency WHERE expires_at <= ?", (now,))
    run(db, f"INSERT INTO idempotency ({COLUMNS}) VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING", row)
    kept = one_row(db, f"SELECT {COLUMNS} FROM idempotency WHERE key = ? AND owner = ?", row[:2])
    # No row: the answer had expired before it was written.
    return record(tuple(row) if kept is None else kept)


def recall(db: Connection, key: str, owner: str, now: float) -> IdempotencyRecord | None:
    sql = f"SELECT {COLUMNS} FROM idempotency WHERE key = ? AND owner = ? AND expires_at > ?"
    row = one_row(db, sql, (key, owner, now))
    return None if row is None else record(row)
