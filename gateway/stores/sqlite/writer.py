"""One thread writes for all callers: it runs the queued jobs in one transaction with one sync, then wakes the callers.

Rules:
- Each job has its own savepoint: a job that fails rolls back none of its neighbours.
- If the transaction fails because the disk is full or broken, each job is tried once more in a transaction of its own:
  a large job must not take the small ones with it. If the lock was not granted, all jobs fail at once: trying them one
  by one would make the last wait for the sum. A whole wait for each group would do the same: see `lock_wait`.
- No caller is told "done" before COMMIT has returned. The log is checkpointed only after the callers were told.
- No fault stops the thread, from any source. A connection that failed is closed, and the next group opens a new one:
  this is how writing resumes after a disk was full, read-only or gone.
- After a fault that every write would meet, the thread tries every `PROBE_EVERY` seconds whether a transaction can be
  committed again: a gateway that is not ready gets no requests, so no write would discover it.
- Every caller is answered. If the thread ends nevertheless, waiting callers get an error, and later ones get it at
  once; if it hangs (a dead mount), later callers are refused.
"""

import asyncio
import logging
import os
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from functools import partial
from pathlib import Path
from queue import Empty, SimpleQueue
from time import monotonic
from typing import Any, Final, Generic, TypeAlias, TypeVar

import apsw

from ostler.gateway.model.errors import (
    StoreBusy,
    StoreClosed,
    StoreCorrupt,
    StoreDiskFault,
    StoreError,
    StoreFault,
    StoreFull,
    StoreLocked,
    StoreReadOnly,
)
from ostler.gateway.model.store import NoStoreWatch, StoreWatch
from ostler.gateway.stores.sqlite.connection import Connection, value
from ostler.gateway.stores.sqlite.faults import fault_of, told_by_disk
from ostler.gateway.stores.sqlite.lock_wait import LockWait
from ostler.metrics.loops import Loops

T = TypeVar("T")
WriteWork: TypeAlias = Callable[[Connection], T]

GROUP = 512
"""Jobs per transaction at most: the first waits for the last."""
FOLD_IDLE, FOLD_BUSY = 500, 16_000
"""Pages of the log (2 MiB, 64 MiB) above which it is checkpointed: while no job waits, and in any case."""
PROBE_EVERY = 1.0
EMPTIES_WITHIN = 0.1
"""Seconds that one attempt to empty the log waits for readers; writes wait as long."""
LAST_TRIES = 20
STUCK_AFTER = 30.0
"""Seconds for one transaction, including its waits; a disk that takes longer counts as not answering."""
GROUP_ERRORS = (apsw.BusyError, apsw.FullError, apsw.IOError, apsw.ReadOnlyError, apsw.CantOpenError, apsw.NoMemError)
"""Faults of the file, not of the job that met them."""
ONE_BY_ONE = (StoreFull, StoreDiskFault, StoreCorrupt)

WRITER_GONE = "the thread that writes has ended; restart the gateway"

log = logging.getLogger("ostler.gateway.model.store")


@dataclass(slots=True)
class WriteJob(Generic[T]):
    work: WriteWork[T]
    loop: asyncio.AbstractEventLoop
    done: asyncio.Future[T]
    since: float = field(default_factory=monotonic)


class Nothing(Enum):
    """A queue entry without work: it wakes the thread for housekeeping."""

    NOTHING = "nothing"


NOTHING: Final = Nothing.NOTHING


@dataclass(slots=True)
class WriteOutcome(Generic[T]):
    job: WriteJob[T]
    value: T | None = None
    error: BaseException | None = None

    def tell(self) -> None:
        """Resolve the caller's future, on its own loop. The caller may have been cancelled."""
        if self.job.done.done():
            return
        if self.error is not None:
            self.job.done.set_exception(self.error)
        else:
            self.job.done.set_result(self.value)  # type: ignore[arg-type]  # None is the result of a job without one


class GroupFailed(Exception):
    """The transaction was rolled back with all its jobs. `fault` makes a new error for each caller."""

    def __init__(self, fault: Callable[[], StoreError]) -> None:
        self.fault = fault


class Writer:
    """The only access to the file for writing."""

    def __init__(
        self,
        path: Path,
        opening: Callable[[float], Connection],
        *,
        wait: float,
        most_waiting: int,
        watch: StoreWatch | None = None,
        loops: Loops | None = None,
    ) -> None:
        self._path = path
        self._loop = (loops or Loops()).add("the thread that writes the store", patience=STUCK_AFTER, vital=True)
        self._watch: StoreWatch = NoStoreWatch() if watch is None else watch
        self._opening = opening
        self._lock = LockWait(wait)
        self._most_waiting = most_waiting
        self._inbox: SimpleQueue[WriteJob[Any] | Nothing | None] = SimpleQueue()
        # Makes "check `_closed`, then enqueue" atomic: a job enqueued after `close` would never be served.
        self._mutex = threading.Lock()
        self._closed = False
        self._closing = False
        self._db: Connection | None = None
        self._log_pages = 0
        self._empties_log = False
        self._thread = threading.Thread(target=self._run, name="ostler-store-writer", daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        return self._inbox.qsize()

    def submit(self, work: WriteWork[T]) -> asyncio.Future[T]:
        """Queue a job of the running loop; the future is done when the job is durable.

        Raises `StoreBusy` if the queue is full, `StoreDiskFault` if the thread hangs, `StoreFault` if it has ended, and
        `StoreClosed`.
        """
        if self.waiting >= self._most_waiting:
            # The only refusal on the caller's thread, so it must be counted here.
            self._watch.failed(StoreBusy.__name__, 1)
            raise StoreBusy(self._path, self.waiting)
        if (seconds := self._loop.stuck_for) is not None:
            raise StoreDiskFault(self._path, f"the disk has not answered for {seconds:.0f} s")
        loop = asyncio.get_running_loop()
        done: asyncio.Future[T] = loop.create_future()
        with self._mutex:
            if self._loop.dead:
                raise StoreFault(self._path, WRITER_GONE)
            if self._closed:
                raise StoreClosed(self._path)
            self._inbox.put(WriteJob(work, loop, done))
        return done

    def empty_log(self) -> None:
        """Ask the thread to checkpoint the whole log and truncate it; the thread retries while readers prevent it."""
        self._empties_log = True
        with self._mutex:
            if not self._closed:
                self._inbox.put(NOTHING)

    def close(self) -> None:
        """Complete the queued jobs, then end. Blocks until the thread has ended."""
        with self._mutex:
            if not self._closed:
                self._closed = True
                self._inbox.put(None)
        self._thread.join()

    def _run(self) -> None:
        try:
            with self._loop.running():
                while not self._closing:
                    first = self._next()
                    with self._loop.round():
                        if isinstance(first, WriteJob):
                            self._serve(self._take(first))
                        elif self._loop.failures and not self._closing:
                            self._probe()
                        self._fold()
        finally:
            self._empty_log_at_the_end()
            self._drop()
            self._answer_the_rest()

    def _next(self) -> WriteJob[Any] | Nothing | None:
        """The next job; None at the end; `NOTHING` when it is time for housekeeping or a probe."""
        try:
            first = self._inbox.get(timeout=PROBE_EVERY if self._loop.failures or self._empties_log else None)
        except Empty:
            return NOTHING
        self._closing = first is None
        return first

    def _answer_the_rest(self) -> None:
        """Fail the jobs still queued when the thread ends. There are none unless a bug ended it."""
        with self._mutex:
            self._closed = True
        rest = []
        while not self._inbox.empty():
            if isinstance(job := self._inbox.get_nowait(), WriteJob):
                rest.append(WriteOutcome(job, error=StoreFault(self._path, WRITER_GONE)))
        tell(rest)

    def _take(self, first: WriteJob[Any]) -> list[WriteJob[Any]]:
        group = [first]
        while len(group) < GROUP:
            try:
                job = self._inbox.get_nowait()
            except Empty:
                break
            if job is None:
                self._closing = True
                break
            if isinstance(job, WriteJob):
                group.append(job)
        return group

    def _serve(self, group: list[WriteJob[Any]]) -> None:
        try:
            outcomes = self._transact(group)
        except GroupFailed as failed:
            fault = failed.fault()
            if isinstance(fault, ONE_BY_ONE) and len(group) > 1:
                for job in group:
                    self._serve([job])
                return
            log.warning("%d writes were not stored: %s", len(group), fault)
            self._loop.count_failure()
            self._count(partial(self._watch.failed, type(fault).__name__, len(group)))
            outcomes = [WriteOutcome(job, error=failed.fault()) for job in group]
        except BaseException as error:
            tell([WriteOutcome(job, error=StoreFault(self._path, f"{type(error).__name__}: {error}")) for job in group])
            self._drop()
            raise
        tell(outcomes)

    def _transact(self, group: list[WriteJob[Any]]) -> list[WriteOutcome[Any]]:
        began = monotonic()
        waited = 0.0
        try:
            db = self._connection(began)
            db.set_busy_timeout(int(self._lock.left(began, monotonic()) * 1000))
            db.execute("BEGIN IMMEDIATE")
            self._lock.granted()
            outcomes = [self._attempt(db, job) for job in group]
            db.execute("COMMIT")
        except apsw.Error as error:
            if isinstance(error, apsw.BusyError):
                waited = self._lock.refused(began, monotonic())
            self._give_up(error)
            # Bind `error` now: Python deletes the name at the end of the block.
            raise GroupFailed(partial(fault_of, error, self._path, waited)) from error
        now = monotonic()
        self._loop.succeeded()
        self._count(partial(self._watch.stored, [now - job.since for job in group]))
        return outcomes

    def _probe(self) -> None:
        """Try whether a transaction can be committed again. Writing `user_version` unchanged still writes its page."""
        try:
            db = self._connection(monotonic())
            db.set_busy_timeout(0)
            db.execute("BEGIN IMMEDIATE")
            db.execute(f"PRAGMA user_version={value(db, 'PRAGMA user_version')}")
            db.execute("COMMIT")
        except apsw.Error as error:
            self._give_up(error)
            log.debug("nothing can be stored yet: %s", error)
        except GroupFailed as failed:
            log.debug("nothing can be stored yet: %s", failed.fault())
        else:
            self._loop.succeeded()
            return
        self._loop.count_failure()

    def _count(self, report: Callable[[], None]) -> None:
        """Report to the watch; a fault of the watch must not reach the callers that wait for a write."""
        try:
            report()
        except Exception:
            log.exception("a write could not be counted")

    def _attempt(self, db: Connection, job: WriteJob[Any]) -> WriteOutcome[Any]:
        db.execute("SAVEPOINT one")
        try:
            outcome = WriteOutcome(job, job.work(db))
        except GROUP_ERRORS:
            raise
        except apsw.Error as error:
            if not db.in_transaction:
                raise
            log.warning("a write failed: %s", error)
            outcome = WriteOutcome(job, error=fault_of(error, self._path, 0.0))
        except OSError as error:
            outcome = WriteOutcome(job, error=told_by_disk(error, self._path))
        except Exception as error:  # noqa: BLE001 - it is raised to the caller
            outcome = WriteOutcome(job, error=error)
        if outcome.error is not None:
            db.execute("ROLLBACK TO one")
        db.execute("RELEASE one")
        return outcome

    def _connection(self, began: float) -> Connection:
        # A file that its owner has made read-only can still be written through an open connection, but that is clearly
        # not wanted. And a connection opened meanwhile would stay read-only.
        try:
            is_read_only = self._path.exists() and not os.access(self._path, os.W_OK)
        except OSError as error:
            self._drop()
            raise GroupFailed(partial(told_by_disk, error, self._path)) from error
        if is_read_only:
            self._drop()
            raise GroupFailed(partial(StoreReadOnly, self._path))
        if self._db is None:
            try:
                self._db = self._opening(self._lock.left(began, began))
            except StoreLocked as locked:
                waited = self._lock.refused(began, monotonic())
                raise GroupFailed(partial(StoreLocked, self._path, waited)) from locked
            except StoreError as error:
                raise GroupFailed(partial(type(error).again, error)) from error
            self._db.set_wal_hook(self._note_log)
        return self._db

    def _give_up(self, error: apsw.Error) -> None:
        """Roll back. A connection whose wait for a lock timed out is sound; after any other error it is closed."""
        db = self._db
        if db is None:
            return
        try:
            if db.in_transaction:
                db.execute("ROLLBACK")
        except apsw.Error as worse:
            log.warning("after %s the transaction could not be rolled back: %s", error, worse)
        else:
            if isinstance(error, apsw.BusyError):
                return
        self._drop()

    def _drop(self) -> None:
        db, self._db = self._db, None
        if db is None:
            return
        try:
            db.close()
        except apsw.Error as error:
            log.warning("%s could not be closed in order: %s", self._path, error)

    def _note_log(self, _db: Connection, _name: str, pages: int) -> int:
        self._log_pages = pages
        return apsw.SQLITE_OK

    def _fold(self) -> None:
        """Checkpoint the log while no job waits, or when it has grown too long to wait for that."""
        if self._empties_log and self._inbox.empty():
            self._empty_log()
        if self._db is None or self._log_pages < (FOLD_IDLE if self._inbox.empty() else FOLD_BUSY):
            return
        self._log_pages = 0
        try:
            self._db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_PASSIVE)
        except apsw.Error as error:
            log.warning("the log could not be folded into %s: %s", self._path, error)
            self._drop()

    def _empty_log_at_the_end(self) -> None:
        for _ in range(LAST_TRIES):
            if self._empties_log:
                self._empty_log()
        if self._empties_log and self._db is not None:
            log.warning("the log of %s is read by others and keeps for now what was erased", self._path)

    def _empty_log(self) -> None:
        """Truncate the log once. A reader in the middle of a read prevents it; `_empties_log` stays set for the next
        attempt."""
        if self._db is None:
            return
        try:
            self._db.set_busy_timeout(int(EMPTIES_WITHIN * 1000))
            self._db.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        except (apsw.BusyError, apsw.LockedError):
            return
        except apsw.Error as error:
            log.warning("the log of %s could not be emptied, it is tried again: %s", self._path, error)
            self._drop()
            return
        self._empties_log, self._log_pages = False, 0


def tell(outcomes: list[WriteOutcome[Any]]) -> None:
    """Wake the callers on their own loops, with one call per loop."""
    for loop in {outcome.job.loop for outcome in outcomes}:
        mine = [outcome for outcome in outcomes if outcome.job.loop is loop]
        try:
            loop.call_soon_threadsafe(tell_here, mine)
        except RuntimeError:
            log.warning("%d writes were done for a loop that has ended", len(mine))


def tell_here(outcomes: list[WriteOutcome[Any]]) -> None:
    for outcome in outcomes:
        outcome.tell()
