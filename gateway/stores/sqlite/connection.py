"""Open connections to the database file: private to its owner, WAL, synchronous=FULL.

Rules:
- We create the file with mode 0600 before SQLite opens it. SQLite gives its log and its shared map the mode of the
  file, regardless of the umask; a file with wider permissions is narrowed.
- No code of this process opens a file that SQLite may have open (the database, its log or its map), not even to read.
  POSIX drops all locks that a process has on a file when the process closes any descriptor of it. Without our locks the
  next program that opens the database believes to be its only user and deletes the log that we write to. `stat`,
  `chmod` and `mknod` open nothing. A copy is made through a connection.
- A connection is used by one thread at a time and is closed by the thread that finds it failing: a connection opened on
  a read-only file stays read-only, even after the file has become writable.
"""

import os
import stat
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias

import apsw

from ostler.gateway.model.errors import StoreUnsafe

Connection: TypeAlias = apsw.Connection
SqlRow: TypeAlias = tuple[Any, ...]
"""One row. The schema defines the types of its columns; Python does not know them."""

PRIVATE = 0o600
PRIVATE_FOLDER = 0o700
PAUSE = 0.01
PRAGMAS = ("synchronous=FULL", "foreign_keys=OFF", "temp_store=MEMORY", "secure_delete=ON")
WRITER_CACHE, READER_CACHE = 4_000, 2_000
"""KiB of pages that a connection caches. Other pages are in the page cache of the system, one system call away: four
times as much brought no gain that `python -m bench store` could measure, and looked like a leak until it was full."""


def make_private(path: Path) -> None:
    """Create the file if it is missing, and remove the permissions of group and others. A file that we may not write is
    left alone. Opens nothing: the file may be in use (see the rules)."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=PRIVATE_FOLDER)
    # Resolve links as SQLite does: it puts the log beside the file, not beside the link.
    real = Path(os.path.realpath(path))
    try:
        os.mknod(real, stat.S_IFREG | PRIVATE)
    except FileExistsError:
        if not os.access(real, os.W_OK):
            return
    for file in (real, real.with_name(real.name + "-wal"), real.with_name(real.name + "-shm")):
        try:
            mode = stat.S_IMODE(file.stat().st_mode)
            if mode & 0o077:
                file.chmod(mode & PRIVATE)
        except FileNotFoundError:
            """The log and the map come and go with the connections."""


def connect(path: Path, wait: float) -> Connection:
    """Open a connection that waits for locks, syncs each commit, and overwrites what it deletes, so that rewritten or
    evicted text does not stay in free pages. 6,000 writes of 20 sessions took as long without overwriting."""
    db = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE, statementcachesize=200)
    try:
        db.set_busy_timeout(int(wait * 1000))
        _use_wal(db, wait)
        for pragma in (*PRAGMAS, f"cache_size=-{WRITER_CACHE}"):
            db.execute(f"PRAGMA {pragma}").fetchall()
    except BaseException:
        db.close()
        raise
    return db


def connect_reader(path: Path, wait: float) -> Connection:
    """Open a connection that cannot write. In a read-only folder where no process has the log open, it reads the bare
    file."""
    try:
        db = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE, statementcachesize=200)
        db.set_busy_timeout(int(wait * 1000))
        db.execute("PRAGMA query_only=1")
        db.execute("SELECT 1 FROM sqlite_schema").fetchall()
    except (apsw.CantOpenError, apsw.ReadOnlyError):
        name = path.resolve().as_uri() + "?immutable=1"
        db = apsw.Connection(name, flags=apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)
        db.execute("SELECT 1 FROM sqlite_schema").fetchall()
    db.execute(f"PRAGMA cache_size=-{READER_CACHE}")
    return db


def is_passing(db: Connection) -> bool:
    """Whether the connection may be used for one read only, because the file was not writable when it was opened.

    A connection to the bare file sees nothing that is written later. And all connections of a process share one map of
    the log, which stays read-only for all of them as long as one such connection is open.
    """
    return bool(db.readonly("main"))


def _use_wal(db: Connection, wait: float) -> None:
    """Switch to WAL, retrying: when two processes open a new file at once, both change its mode, and SQLite's busy
    timeout does not cover this lock."""
    give_up = time.monotonic() + wait
    while True:
        try:
            db.execute("PRAGMA journal_mode=WAL").fetchall()
        except apsw.BusyError:
            if time.monotonic() > give_up:
                raise
            time.sleep(PAUSE)
        else:
            return


def all_rows(db: Connection, sql: str, values: Sequence[object] = ()) -> list[SqlRow]:
    """Run a statement and return all rows."""
    return db.execute(sql, tuple(values)).fetchall()


def one_row(db: Connection, sql: str, values: Sequence[object] = ()) -> SqlRow | None:
    """Run a statement and return its first row, or None."""
    return db.execute(sql, tuple(values)).fetchone()


def run(db: Connection, sql: str, values: Sequence[object] = ()) -> int:
    """Run a statement; return how many rows it changed."""
    db.execute(sql, tuple(values)).fetchall()
    return db.changes()


def value(db: Connection, sql: str, values: Sequence[object] = ()) -> Any:
    """The first column of the first row; None if there is no row."""
    return db.execute(sql, tuple(values)).get


SOUND = (3, 51, 3)
"""Fixed the WAL-reset bug of 3.7.0: when one connection commits while another restarts the log, a later checkpoint can
leave out frames. We have a writer, readers that may recover the log, and other processes."""


def check_library(version: str | None = None) -> None:
    """Raise `StoreUnsafe` for an affected version; None checks the loaded library."""
    found = apsw.sqlite_lib_version() if version is None else version
    if tuple(int(part) for part in found.split(".")) < SOUND:
        raise StoreUnsafe(found, ".".join(map(str, SOUND)))
