"""The store in one SQLite file: WAL, synchronous=FULL, one writer thread with group commit, two readers.

Rules of this package:
- `store.py` is the only class that others see, `file.py` is its way to the disk. The SQL stands in the file of its
  subject, beside what it is for: plain functions of a connection, which run in the writer's or a reader's thread.
- A function that writes may be run twice, the first time being rolled back: it changes nothing but the database.
- JSON is made and read on the caller's side of the queue where it can be: the writer's time belongs to everybody.
"""

from ostler.gateway.stores.sqlite.store import SqliteStore

__all__ = ["SqliteStore"]
