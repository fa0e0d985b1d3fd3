"""Migrate any older file to the current schema. The first process to open the file migrates it.

Rules:
- A step and the new version number are one IMMEDIATE transaction: both happened or neither. A process that opens the
  file at the same time waits for the lock, checks the version again and finds nothing to do.
- A step that drops or rewrites rows is destructive: before it, the whole file is copied to `<name>.v<old version>.bak`
  in the same folder, with the same permissions.
- Additions have no version: missing columns, tables and indexes are detected and added.
- A file of a newer version is refused and left unchanged.
"""

from pathlib import Path

import apsw

from ostler.gateway.model.errors import StoreTooNew
from ostler.gateway.stores.sqlite.connection import Connection, all_rows, make_private, run, value
from ostler.gateway.stores.sqlite.schema import ADDED, INDEXES, SCHEMA, TABLES, TRIGGERS

# From version 1: slugs had no owner and did not know their session.
OWNED_CONVERSATIONS = """
ALTER TABLE conversations RENAME TO conversations_before;
CREATE TABLE conversations (
    slug TEXT NOT NULL, owner TEXT NOT NULL DEFAULT '',
    session_id TEXT, response_id TEXT,
    metadata TEXT NOT NULL DEFAULT '{}', created_at REAL NOT NULL DEFAULT 0, updated_at REAL NOT NULL DEFAULT 0,
    PRIMARY KEY (slug, owner)
);
INSERT INTO conversations (slug, response_id) SELECT slug, response_id FROM conversations_before;
DROP TABLE conversations_before;
"""

DESTRUCTIVE = {1: OWNED_CONVERSATIONS}
"""The step from each version to the next."""


def migrate(db: Connection, path: Path) -> bool:
    """Bring the file to the current schema; return whether anything changed."""
    if _is_current(db, path):
        return False
    db.execute("BEGIN IMMEDIATE")
    try:
        if _is_current(db, path):
            db.execute("ROLLBACK")
            return False
        version = _version(db)
        if any(old >= version for old in DESTRUCTIVE) and version:
            _back_up(path, version)
        _bring_up(db, version or SCHEMA)
        db.execute("COMMIT")
    except BaseException:
        if db.in_transaction:
            db.execute("ROLLBACK")
        raise
    return True


def _bring_up(db: Connection, version: int) -> None:
    for old in range(version, SCHEMA):
        run(db, DESTRUCTIVE.get(old, ""))
    run(db, TABLES)
    for table, column, kind in _missing(db):
        run(db, f"ALTER TABLE {table} ADD COLUMN {column} {kind}")
    run(db, INDEXES + TRIGGERS)
    run(db, f"PRAGMA user_version={SCHEMA}")


def _is_current(db: Connection, path: Path) -> bool:
    version = _version(db)
    if version > SCHEMA:
        raise StoreTooNew(path, version, SCHEMA)
    return version == SCHEMA and not _missing(db)


def _version(db: Connection) -> int:
    """0 for an empty file; a file with tables and no version number is from before versions, and counts as 1."""
    numbered = int(value(db, "PRAGMA user_version"))
    return numbered or int(value(db, "SELECT count(*) FROM sqlite_schema WHERE name = 'conversations'"))


def _missing(db: Connection) -> list[tuple[str, str, str]]:
    return [
        added for added in ADDED if added[1] not in {row[0] for row in all_rows(db, _COLUMNS.format(table=added[0]))}
    ]


_COLUMNS = "SELECT name FROM pragma_table_info('{table}')"


def _back_up(path: Path, version: int) -> None:
    """Copy the committed state through a connection of its own. The caller holds the write lock, so nothing changes
    meanwhile."""
    kept = path.with_name(f"{path.name}.v{version}.bak")
    fresh = kept.with_name(kept.name + ".new")
    fresh.unlink(missing_ok=True)
    make_private(fresh)
    source = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)
    target = apsw.Connection(str(fresh))
    try:
        with target.backup("main", source, "main") as copy:
            copy.step()
    finally:
        target.close()
        source.close()
    fresh.replace(kept)
