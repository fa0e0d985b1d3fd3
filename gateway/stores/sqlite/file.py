"""The file of a store: how it is opened and migrated, and the access for writing and for reading.

Rules: every connection that may write is to a file of the current schema, including a connection that replaces another
after a fault. Nothing in this file knows what is stored.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Self, TypeVar

import apsw

from ostler.gateway.model.errors import StoreError
from ostler.gateway.model.store import StoreWatch
from ostler.gateway.stores.sqlite.connection import Connection, connect, connect_reader, make_private
from ostler.gateway.stores.sqlite.faults import fault_of, told_by_disk
from ostler.gateway.stores.sqlite.migrations import migrate
from ostler.gateway.stores.sqlite.reader import Readers
from ostler.gateway.stores.sqlite.writer import Writer
from ostler.metrics.loops import Loops

T = TypeVar("T")

log = logging.getLogger("ostler.gateway.model.store")


@dataclass(frozen=True, slots=True)
class SqliteSettings:
    """Limits of one store file."""

    responses_max: int = 10_000
    responses_bytes_max: int = 512 * 1024 * 1024
    lock_wait: float = 5.0
    """Seconds that a transaction waits for the lock of another program."""
    most_waiting: int = 10_000
    """How many writes may be queued before `StoreBusy`."""


class StoreFile:
    """One writer and two readers of one file. Created by `open`."""

    def __init__(self, path: Path, settings: SqliteSettings, watch: StoreWatch | None, loops: Loops | None) -> None:
        self.path = path
        wait, most = settings.lock_wait, settings.most_waiting
        self._writer = Writer(path, self._opening, wait=wait, most_waiting=most, watch=watch, loops=loops)
        self._readers = Readers(path, partial(connect_reader, path, wait), wait=wait, loops=loops)

    @classmethod
    def open(
        cls, path: Path, settings: SqliteSettings, watch: StoreWatch | None = None, loops: Loops | None = None
    ) -> Self:
        """Open the file, or create it. Blocks.

        An existing file that cannot be written now is opened nevertheless: it can be read, and the first write that
        succeeds migrates it.
        """
        file = cls(path, settings, watch, loops)
        try:
            file._opening(settings.lock_wait).close()
        except StoreError as fault:
            if not fault.passing or not has_content(path):
                file.close()
                raise
            log.warning("opened for reading only, for now: %s", fault)
        except BaseException:
            file.close()
            raise
        return file

    @property
    def waiting(self) -> int:
        """How many writes are queued."""
        return self._writer.waiting

    def write(self, work: Callable[[Connection], T]) -> "asyncio.Future[T]":
        """Queue a write; it is durable when the future is done. Raises `StoreClosed`, `StoreBusy`."""
        return self._writer.submit(work)

    def empty_log(self) -> None:
        """Ask the writer to empty the log as soon as no reader needs it: the log still holds text that was overwritten
        in the file."""
        self._writer.empty_log()

    def read(self, work: Callable[[Connection], T]) -> Awaitable[T]:
        """Run `work` on a read-only connection, in a reader's thread."""
        return self._readers.run(work)

    def close(self) -> None:
        """Complete the queued writes, then end. Blocks."""
        self._writer.close()
        self._readers.close()

    def _opening(self, wait: float) -> Connection:
        """Open a writing connection to a file of the current schema, waiting at most `wait` seconds for a lock."""
        try:
            make_private(self.path)
            db = connect(self.path, wait)
            try:
                migrate(db, self.path)
            except BaseException:
                db.close()
                raise
        except apsw.Error as error:
            raise fault_of(error, self.path, wait) from error
        except OSError as error:
            raise told_by_disk(error, self.path) from error
        return db


def has_content(path: Path) -> bool:
    """Whether the file holds data, as far as we may look."""
    try:
        return path.stat().st_size > 0
    except OSError:
        return False
