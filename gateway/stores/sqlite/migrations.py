"""From any older file to the schema of today, once, whoever comes first.

Rules:
- A step is taken inside one IMMEDIATE transaction together with the new version number: it happened or it did not.
  Who opens at the same time waits for the lock, looks at the version again and finds nothing to do.
- A step that drops or rewrites rows is destructive: before it the whole file is copied beside itself, as
  `<name>.v<old version>.bak`, private as the file is.
- What only adds is not counted: columns are looked for, tables and indexes are made where they are missing.
- A file of a newer version is refused and left alone.
"""

from pathlib import Path

import apsw

from ostler.gateway.model.errors import StoreTooNew
from ostler.gateway.stores.sqlite.connection import Connection, all_rows, make_private, run, value
from ostler.gateway.stores.sqlite.schema import ADDED, INDEXES, SCHEMA, TABLES, TRIGGERS

# From 1: slugs belonged to nobody in particular and did not know their session.
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
"""The step that leaves each version."""


def migrate(db: Connection, path: Path) -> bool:
    """Bring the file to the schema of today; whether anything had to be done."""
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
    """0 for a file that nobody has put anything into; tables without a number are from before there was one."""
    numbered = int(value(db, "PRAGMA user_version"))
    return numbered or int(value(db, "SELECT count(*) FROM sqlite_schema WHERE name = 'conversations'"))


def _missing(db: Connection) -> list[tuple[str, str, str]]:
    return [
        added for added in ADDED if added[1] not in {row[0] for row in all_rows(db, _COLUMNS.format(table=added[0]))}
    ]


_COLUMNS = "SELECT name FROM pragma_table_info('{table}')"


def _back_up(path: Path, version: int) -> None:
    """Copy what is committed, by a connection of its own; the lock of the step is held, so nothing moves meanwhile."""
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
