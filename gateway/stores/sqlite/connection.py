"""Opening the file: private to its owner, WAL, synchronous=FULL.

Rules:
- The file is made by us with mode 0600 before SQLite sees it. SQLite gives its log and its shared map the mode of the
  file, whatever the umask; a file that is wider than that is narrowed.
- No code of this process opens a file that SQLite may have open: not the database, its log or its map, not for a look.
  POSIX drops all locks that a process has on a file when the process closes any descriptor of it. Without our locks
  the next program that looks at the database takes itself for its only user and deletes the log that we write to.
  `stat`, `chmod` and `mknod` open nothing. A copy is made through a connection.
- A connection is used by one thread at a time and closed by whoever finds it failing: one that was opened on a
  read-only file stays read-only for ever.
"""

import os
import stat
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias

import apsw

Connection: TypeAlias = apsw.Connection
SqlRow: TypeAlias = tuple[Any, ...]
"""What SQLite keeps is typed by its schema, not by Python."""

PRIVATE = 0o600
PRIVATE_FOLDER = 0o700
PAUSE = 0.01
PRAGMAS = ("synchronous=FULL", "foreign_keys=OFF", "temp_store=MEMORY", "secure_delete=ON")
WRITER_CACHE, READER_CACHE = 4_000, 2_000
"""KiB of pages that a connection keeps. What it does not keep is in the memory of the system, a call away: four times
as much bought nothing that `python -m bench store` could tell, and looked like a leak for as long as it filled."""


def make_private(path: Path) -> None:
    """Make the file where it is missing, and take it from everybody but its owner; a file that we may not write to is
    left alone. Opens nothing: the file may be in use, see the rules."""
    path.parent.mkdir(parents=True, exist_ok=True, mode=PRIVATE_FOLDER)
    # Where a link leads to, as SQLite does it: the log is beside the file and not beside the link.
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
            """The log comes and goes with the connections."""


def connect(path: Path, wait: float) -> Connection:
    """A connection that waits for a lock, stores nothing that is not on the disk, and overwrites what it deletes: what
    is rewritten or evicted leaves no text behind in free pages. 6,000 writes of 20 sessions took as long without."""
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
    """A connection that cannot write. Where the folder is read-only and nobody has the log open, it reads the bare
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
    """Whether it is good for one reading only, because the file could not be written to when it was opened.

    One that reads the bare file sees nothing that is written from now on; and all connections of a process share one
    map of the log, which stays read-only for all of them as long as one of these is open.
    """
    return bool(db.readonly("main"))


def _use_wal(db: Connection, wait: float) -> None:
    """Two who open a new file at once both want to change its mode; for this lock SQLite does not wait by itself."""
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
    """Every row of a statement."""
    return db.execute(sql, tuple(values)).fetchall()


def one_row(db: Connection, sql: str, values: Sequence[object] = ()) -> SqlRow | None:
    """The first row of a statement, if there is one."""
    return db.execute(sql, tuple(values)).fetchone()


def run(db: Connection, sql: str, values: Sequence[object] = ()) -> int:
    """Run a statement; how many rows it changed."""
    db.execute(sql, tuple(values)).fetchall()
    return db.changes()


def value(db: Connection, sql: str, values: Sequence[object] = ()) -> Any:
    """The first column of the first row; None where there is no row."""
    return db.execute(sql, tuple(values)).get
