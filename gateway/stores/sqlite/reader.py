"""Two reader threads, each read with a connection of its own. More threads would only contend for the interpreter lock.

Rules:
- A connection that failed is closed, and the next read opens a new one: a fault that has passed leaves no trace.
- Reads never wait for writes, and go on while writes fail.
- When every reader thread hangs (a dead mount), new reads are refused.
"""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import TypeAlias, TypeVar

import apsw

from ostler.gateway.model.errors import StoreClosed, StoreDiskFault
from ostler.gateway.stores.sqlite.connection import Connection, is_passing
from ostler.gateway.stores.sqlite.faults import fault_of, told_by_disk
from ostler.metrics.loops import Loop, Loops

T = TypeVar("T")
Read: TypeAlias = Callable[[Connection], T]

READERS = 2
STUCK_AFTER = 60.0
"""Seconds for one read; a disk that takes longer counts as not answering."""


class Readers:
    """The reader threads and their idle connections."""

    def __init__(
        self, path: Path, opening: Callable[[], Connection], *, wait: float, loops: Loops | None = None
    ) -> None:
        self._path = path
        self._opening = opening
        self._wait = wait
        self._closed = False
        self._idle: SimpleQueue[Connection] = SimpleQueue()
        watched = Loops() if loops is None else loops
        self._watches: SimpleQueue[Loop] = SimpleQueue()
        """One loop watch per thread. A thread takes one for each read, so one is always free."""
        self._all = [
            watched.add(f"reader {number} of the store", patience=STUCK_AFTER) for number in range(1, READERS + 1)
        ]
        for watch in self._all:
            self._watches.put(watch)
        self._threads = ThreadPoolExecutor(READERS, thread_name_prefix="ostler-store-reader")

    async def run(self, read: Read[T]) -> T:
        """Run `read` in a thread. Raises `StoreClosed`, `StoreDiskFault` if all threads hang, or the translated
        fault."""
        if self._closed:
            raise StoreClosed(self._path)
        if all(watch.stuck_for is not None for watch in self._all):
            raise StoreDiskFault(self._path, f"the disk has not answered for {STUCK_AFTER:g} s")
        try:
            return await asyncio.get_running_loop().run_in_executor(self._threads, self._read_watched, read)
        except OSError as error:
            raise told_by_disk(error, self._path) from error

    def _read_watched(self, read: Read[T]) -> T:
        watch = self._watches.get()
        try:
            with watch.busy():
                return self._read(read)
        finally:
            self._watches.put(watch)

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
        """Complete the running reads, then end. Blocks."""
        self._closed = True
        self._threads.shutdown()
        for watch in self._all:
            watch.stopped()
        while not self._idle.empty():
            self._idle.get_nowait().close()
