"""The store in one SQLite file: WAL, synchronous=FULL, one writer thread with group commit, two reader threads.

Rules of this package:
- `store.py` has the only class that other packages use; `file.py` is its access to the disk. The SQL of each subject is
  in a file of its own, as plain functions of a connection that run in the writer's or a reader's thread.
- A function that writes may run twice, the first run being rolled back: it has no side effects but on the database.
- JSON is encoded and decoded in the caller's thread where possible: all callers share the writer's time.
"""

from ostler.gateway.stores.sqlite.store import SqliteStore

__all__ = ["SqliteStore"]
