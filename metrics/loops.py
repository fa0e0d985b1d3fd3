"""Long-lived loops: a round that fails costs that round, and a loop that ended or hangs can be seen from outside.

Rules:
- Every task and thread that works for the life of its owner is a `Loop`: its body runs inside `running`, each round
  inside `round`; `repeat` is both. An error of a round is logged and counted, and the loop goes on. Only its owner ends
  it: by a cancellation, by leaving the `running` block, or, where there is no such block, by `stopped`.
- A loop is broken when it has ended by anything else, when one round takes longer than `patience`, or, where nothing
  can be served without it (`vital`), when `SEVERAL` rounds in a row have failed. `Loops.broken` says so in a sentence
  without paths or error texts, because strangers may read it; the log has those.
- A loop writes its own record, on its own thread; everybody else only reads it.
"""

import asyncio
import logging
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from time import monotonic
from typing import Final

log = logging.getLogger(__name__)

SEVERAL: Final = 3
PATIENCE: Final = 300.0
"""Seconds that one round may take where its owner does not say how many."""


class Loop:
    """The record of one loop. Made by `Loops.add`."""

    def __init__(
        self, name: str, patience: float, clock: Callable[[], float], *, vital: bool, forget: "Callable[[Loop], None]"
    ) -> None:
        self.name = name
        self.failures = 0
        """Rounds in a row that failed."""
        self.dead = False
        """It has ended although nobody ended it."""
        self._patience = patience
        self._clock = clock
        self._vital = vital
        self._forget = forget
        self._began: float | None = None
        self._told = ""
        self._judged = False
        """This round was counted already, by the loop itself."""

    @contextmanager
    def running(self) -> Iterator[None]:
        """Around the whole loop. Whatever leaves it, but for a cancellation by the owner, is logged and raised."""
        try:
            yield
        except BaseException as error:
            if isinstance(error, GeneratorExit) or cancelled_by_owner(error):
                self.stopped()
            else:
                self.died(error)
            raise
        self.stopped()

    @contextmanager
    def round(self) -> Iterator[None]:
        """Around one round. Swallows what it raises, after it was logged, but for a cancellation by the owner."""
        self._began, self._judged = self._clock(), False
        try:
            yield
        except Exception as error:  # noqa: BLE001 - logged whole by `failed`; the loop must go on
            self.failed(error)
        except asyncio.CancelledError as error:
            # Also raised by something that the round waited for and that was cancelled by others.
            if cancelled_by_owner(error):
                raise
            self.failed(error)
        else:
            if not self._judged:
                self.succeeded()
        finally:
            self._began = None

    async def repeat(self, every: Callable[[], float], work: Callable[[], Awaitable[object]]) -> None:
        """A round each so many seconds, until it is cancelled."""
        with self.running():
            while True:
                await asyncio.sleep(every())
                with self.round():
                    await work()

    @contextmanager
    def busy(self) -> Iterator[None]:
        """Around work whose errors are its caller's, as of a worker thread: only how long it takes is watched."""
        self._began = self._clock()
        try:
            yield
        finally:
            self._began = None

    @property
    def stuck_for(self) -> float | None:
        """Seconds that its round has taken, where these are more than its patience."""
        began = self._began
        seconds = 0.0 if began is None else self._clock() - began
        return seconds if seconds > self._patience else None

    def stopped(self) -> None:
        """Its owner has ended it. A second call does nothing."""
        self._forget(self)

    def died(self, error: BaseException) -> None:
        """It ends, and should not."""
        self.dead = True
        log.critical("%s has ended: %s: %s", self.name, type(error).__name__, error, exc_info=error)

    def failed(self, error: BaseException) -> None:
        """A round failed. The same failure again is logged in one line, and each hundredth time only."""
        self.count_failure()
        told = f"{type(error).__name__}: {error}"
        if told != self._told:
            self._told = told
            log.error("a round of %s failed, it goes on: %s", self.name, told, exc_info=error)
        elif self.failures % 100 == 0:
            log.error("%s goes on, its last %d rounds failed: %s", self.name, self.failures, told)

    def count_failure(self) -> None:
        """A round failed, and who waits for its outcome was told."""
        self.failures, self._judged = self.failures + 1, True

    def succeeded(self) -> None:
        """A round went well."""
        self._judged = True
        if self.failures:
            log.info("%s works again, after %d rounds that failed", self.name, self.failures)
        self.failures, self._told = 0, ""

    def broken(self) -> str | None:
        """What is wrong with it, in a sentence."""
        if self.dead:
            return f"{self.name} has ended; see the log, then restart the gateway"
        if (seconds := self.stuck_for) is not None:
            return f"{self.name} has not come back for {seconds:.0f} s; is a disk dead? see the log"
        if self._vital and self.failures >= SEVERAL:
            return f"{self.name} fails again and again; see the log"
        return None


class Loops:
    """The loops of one program. Made by its composition root and handed to each room."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._all: dict[int, Loop] = {}

    def add(self, name: str, *, patience: float = PATIENCE, vital: bool = False) -> Loop:
        """A loop that is about to begin."""
        loop = Loop(name, patience, self._clock, vital=vital, forget=self._forget)
        self._all[id(loop)] = loop
        return loop

    def names(self) -> list[str]:
        """Every loop there is."""
        return sorted(loop.name for loop in list(self._all.values()))

    def broken(self) -> list[str]:
        """What is wrong, a sentence for each loop with which something is."""
        return [said for loop in list(self._all.values()) if (said := loop.broken()) is not None]

    def _forget(self, loop: Loop) -> None:
        self._all.pop(id(loop), None)


def cancelled_by_owner(error: BaseException) -> bool:
    """Whether the running task was told to end, and not something that it waited for."""
    if not isinstance(error, asyncio.CancelledError):
        return False
    try:
        task = asyncio.current_task()
    except RuntimeError:
        return False
    return task is not None and task.cancelling() > 0
