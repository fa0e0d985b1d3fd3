"""Threads for sync tools, shared by all sessions, so that no session can use them up.

Rules: a bounded number of threads works at a time, and `share` limits how many one session may have. A function that
overran its time cannot be stopped, only abandoned: its thread no longer counts as working, so that the next call gets
one. The number of abandoned threads is bounded too; beyond that, calls wait. A call that was given up before it began
never runs: its caller has been told that it was stopped. The threads are daemons, so that a stuck one does not delay
the exit (those of `concurrent.futures.ThreadPoolExecutor` are joined at exit, and a stuck one keeps its place in the
pool).
"""

from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field
from threading import Lock, Thread
from typing import Any, Final, Generic, TypeVar

SIZE: Final = 32
ABANDONED_LIMIT: Final = 256

T = TypeVar("T")


@dataclass(eq=False, slots=True)
class Job(Generic[T]):
    """One call that waits for a thread or runs in one."""

    work: Callable[[], T]
    outcome: "Future[T]" = field(default_factory=Future)


class Threads:
    """Runs jobs on at most `size` working threads; safe to call from any thread."""

    def __init__(self, size: int = SIZE, *, share: int | None = None, abandoned_limit: int = ABANDONED_LIMIT) -> None:
        self.share = share or max(1, size // 4)
        self._size = size
        self._abandoned_limit = abandoned_limit
        self._lock = Lock()
        self._waiting: deque[Job[Any]] = deque()
        self._working: set[Job[Any]] = set()
        self._abandoned: set[Job[Any]] = set()

    @property
    def abandoned(self) -> int:
        """How many abandoned threads have not finished yet."""
        return len(self._abandoned)

    def send(self, work: Callable[[], T]) -> Job[T]:
        job = Job(work)
        with self._lock:
            self._waiting.append(job)
            self._start_workers()
        return job

    def give_up(self, job: Job[Any]) -> None:
        """Give up a job that no caller awaits. If it has not begun, it never runs; else its thread is abandoned."""
        if job.outcome.cancel():
            return
        with self._lock:
            if job in self._working and len(self._abandoned) < self._abandoned_limit:
                self._working.discard(job)
                self._abandoned.add(job)
                self._start_workers()

    def _start_workers(self) -> None:
        """Start waiting jobs on new threads while the limit allows. Call with the lock held."""
        while self._waiting and len(self._working) < self._size:
            job = self._waiting.popleft()
            if job.outcome.set_running_or_notify_cancel():
                self._begin(job)

    def _begin(self, job: Job[Any]) -> None:
        self._working.add(job)
        try:
            Thread(target=self._run, args=(job,), name="ostler-tool", daemon=True).start()
        except RuntimeError as error:  # the system has no free thread: the caller gets the error
            self._working.discard(job)
            job.outcome.set_exception(error)

    def _run(self, job: Job[Any]) -> None:
        try:
            result = job.work()
        except BaseException as error:  # noqa: BLE001 - passed to the awaiting caller, as an executor does
            self._return(job)
            job.outcome.set_exception(error)
        else:
            self._return(job)
            job.outcome.set_result(result)

    def _return(self, job: Job[Any]) -> None:
        with self._lock:
            self._working.discard(job)
            self._abandoned.discard(job)
            self._start_workers()
