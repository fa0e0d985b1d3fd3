"""Marks, pruning, and the facts of the file for status pages."""

from pathlib import Path

from ostler.gateway.model.records import StoreFacts
from ostler.gateway.stores.sqlite.connection import Connection, all_rows, run, value
from ostler.gateway.stores.sqlite.erasing import LED_TO, delete
from ostler.gateway.stores.sqlite.json import read_object
from ostler.wire.json import JsonObject

PRUNABLE = (
    f"SELECT s.id FROM sessions s WHERE s.ended_at IS NOT NULL AND s.last_active_at < ? AND {LED_TO} "
    "ORDER BY s.activity, s.seq LIMIT ?"
)
LEVELS = {0: "off", 1: "normal", 2: "full", 3: "extra"}


def set_mark(db: Connection, name: str, text: str) -> None:
    run(db, "INSERT INTO marks VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value", (name, text))


def marks(db: Connection, prefix: str) -> dict[str, JsonObject]:
    sql = "SELECT name, value FROM marks WHERE name >= ? AND name < ? ORDER BY name"
    return {name: read_object(text) for name, text in all_rows(db, sql, (prefix, prefix + "\U0010ffff"))}


def prune(db: Connection, before: float, limit: int) -> list[str]:
    gone = [str(row[0]) for row in all_rows(db, PRUNABLE, (before, limit))]
    delete(db, gone)
    return gone


def facts(db: Connection, path: Path) -> StoreFacts:
    """Must run on a writing connection: the synchronous level belongs to the connection, not to the file."""
    return StoreFacts(
        path=str(path),
        engine=f"sqlite {_said(db, 'SELECT sqlite_version()')}",
        journal_mode=_said(db, "PRAGMA journal_mode"),
        synchronous=LEVELS[int(_said(db, "PRAGMA synchronous"))],
        schema=int(_said(db, "PRAGMA user_version")),
        waiting_writes=0,
        facts={"bytes": path.stat().st_size},
    )


def _said(db: Connection, sql: str) -> str:
    return str(value(db, sql))
