"""Two threads that read, each with a connection of its own: more would only fight for the interpreter.

Rules:
- A connection that failed is closed and replaced by the next reading: nothing remembers a fault that has passed.
- Reading never waits for writing, and goes on when writing cannot.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TypeAlias, TypeVar

import apsw

from ostler.gateway.errors import StoreClosed
from ostler.gateway.stores.sqlite.connection import Connection, is_passing
from ostler.gateway.stores.sqlite.faults import fault_of

T = TypeVar("T")
Read: TypeAlias = Callable[[Connection], T]

READERS = 2


class Readers:
    """The way to the file for reading."""

    def __init__(self, path: Path, opening: Callable[[], Connection], *, wait: float) -> None:
        self._path = path
        self._opening = opening
        self._wait = wait
        self._closed = False
        self._idle: SimpleQueue[Connection] = SimpleQueue()
        self._threads = ThreadPoolExecutor(READERS, thread_name_prefix="ostler-store-reader")

    async def run(self, read: Read[T]) -> T:
        """What `read` finds."""
        if self._closed:
            raise StoreClosed(self._path)
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._read, read)

    def _read(self, read: Read[T]) -> T:
        db: Connection | None = None
        try:
            db = self._take()
            found = read(db)
        except apsw.Error as error:
            if db is not None:
                db.close()
            raise fault_of(error, self._path, self._wait) from error
        except BaseException:
            if db is not None:
                self._put_back(db)
            raise
        self._put_back(db)
        return found

    def _put_back(self, db: Connection) -> None:
        if is_passing(db):
            db.close()
        else:
            self._idle.put(db)

    def _take(self) -> Connection:
        try:
            return self._idle.get_nowait()
        except Empty:
            return self._opening()

    def close(self) -> None:
        """Finish what is being read, then end. Blocks."""
        self._closed = True
        self._threads.shutdown()
        while not self._idle.empty():
            self._idle.get_nowait().close()
