"""A look at a gateway's database from outside the gateway's own code.

Rules: through apsw, the library the gateway itself uses, and never through the standard library's `sqlite3`: two SQLite
libraries in one process do not see each other's locks, so the second one's last connection tidies away files that the
first one has mapped, and the process ends by a bus error.
"""

from collections.abc import Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

import apsw


def look(path: Path, query: str, *values: Any) -> list[tuple[Any, ...]]:
    """Read only."""
    with closing(apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READONLY)) as db:
        db.set_busy_timeout(10_000)
        return db.execute(query, values).fetchall()


def change(path: Path, *statements: str, values: Sequence[Any] = ()) -> None:
    """Behind the gateway's back, all or nothing; `values` go to each statement."""
    flags = apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE
    with closing(apsw.Connection(str(path), flags=flags)) as db:
        db.set_busy_timeout(10_000)
        with db:
            for statement in statements:
                db.execute(statement, values)
