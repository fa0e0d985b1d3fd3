"""Long-lived loops: an error costs one round, and a loop that ended or hangs is visible from outside.

Rules:
- Every task and thread that works for the life of its owner is a `Loop`: its body runs inside `running`, each round
  inside `round`; `repeat` does both. An error of a round is logged and counted, and the loop goes on. Only its owner
  ends it: by a cancellation, by leaving the `running` block, or, where there is no such block, by `stopped`.
- A loop is broken when it has ended in any other way, when one round takes longer than `patience`, or, if the program
  cannot serve without it (`vital`), when `SEVERAL` rounds in a row have failed. `Loops.broken` says so in a sentence
  without paths or error texts, because strangers may read it; the log has those.
- A loop writes its own record, on its own thread; all other components only read it.
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
"""The default for the seconds that one round may take."""


class Loop:
    """The record of one loop. Made by `Loops.add`."""

    def __init__(
        self, name: str, patience: float, clock: Callable[[], float], *, vital: bool, forget: "Callable[[Loop], None]"
    ) -> None:
        self.name = name
        self.failures = 0
        """Rounds in a row that failed."""
        self.dead = False
        """Whether the loop has ended although its owner did not end it."""
        self._patience = patience
        self._clock = clock
        self._vital = vital
        self._forget = forget
        self._began: float | None = None
        self._logged = ""
        self._judged = False
        """Whether the body has already counted this round as failed or succeeded."""

    @contextmanager
    def running(self) -> Iterator[None]:
        """Wrap the whole loop. Any exception but a cancellation by the owner is logged; every exception is raised."""
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
        """Wrap one round. Logs and suppresses its exceptions, except a cancellation by the owner."""
        self._began, self._judged = self._clock(), False
        try:
            yield
        except Exception as error:  # noqa: BLE001 - logged whole by `failed`; the loop must go on
            self.failed(error)
        except asyncio.CancelledError as error:
            # A CancelledError also comes from a task that the round awaited and another component cancelled.
            if cancelled_by_owner(error):
                raise
            self.failed(error)
        else:
            if not self._judged:
                self.succeeded()
        finally:
            self._began = None

    async def repeat(self, every: Callable[[], float], work: Callable[[], Awaitable[object]]) -> None:
        """Run a round every `every()` seconds until cancelled."""
        with self.running():
            while True:
                await asyncio.sleep(every())
                with self.round():
                    await work()

    @contextmanager
    def busy(self) -> Iterator[None]:
        """Wrap work whose errors its caller gets, as in a worker thread: only its duration is watched."""
        self._began = self._clock()
        try:
            yield
        finally:
            self._began = None

    @property
    def stuck_for(self) -> float | None:
        """Seconds that the current round has taken, if more than `patience`; otherwise None."""
        began = self._began
        seconds = 0.0 if began is None else self._clock() - began
        return seconds if seconds > self._patience else None

    def stopped(self) -> None:
        """Note that its owner has ended it. Idempotent."""
        self._forget(self)

    def died(self, error: BaseException) -> None:
        """Note that it ends although its owner did not end it."""
        self.dead = True
        log.critical("%s has ended: %s: %s", self.name, type(error).__name__, error, exc_info=error)

    def failed(self, error: BaseException) -> None:
        """Count and log a failed round. A repeated failure is logged in one line, and only each hundredth time."""
        self.count_failure()
        text = f"{type(error).__name__}: {error}"
        if text != self._logged:
            self._logged = text
            log.error("a round of %s failed, it goes on: %s", self.name, text, exc_info=error)
        elif self.failures % 100 == 0:
            log.error("%s goes on, its last %d rounds failed: %s", self.name, self.failures, text)

    def count_failure(self) -> None:
        """Count a failed round without logging it: the caller that waits for its outcome has been told."""
        self.failures, self._judged = self.failures + 1, True

    def succeeded(self) -> None:
        """Note that a round succeeded; log the recovery if rounds before it failed."""
        self._judged = True
        if self.failures:
            log.info("%s works again, after %d rounds that failed", self.name, self.failures)
        self.failures, self._logged = 0, ""

    def broken(self) -> str | None:
        """A sentence that says what is wrong with it; None for a loop in order."""
        if self.dead:
            return f"{self.name} has ended; see the log, then restart the gateway"
        if (seconds := self.stuck_for) is not None:
            return f"{self.name} has not come back for {seconds:.0f} s; is a disk dead? see the log"
        if self._vital and self.failures >= SEVERAL:
            return f"{self.name} fails again and again; see the log"
        return None


class Loops:
    """The loops of one program. Made by its composition root and passed to each package."""

    def __init__(self, clock: Callable[[], float] = monotonic) -> None:
        self._clock = clock
        self._all: dict[int, Loop] = {}

    def add(self, name: str, *, patience: float = PATIENCE, vital: bool = False) -> Loop:
        """Register a loop that is about to begin."""
        loop = Loop(name, patience, self._clock, vital=vital, forget=self._forget)
        self._all[id(loop)] = loop
        return loop

    def names(self) -> list[str]:
        """The names of all running or dead loops."""
        return sorted(loop.name for loop in list(self._all.values()))

    def broken(self) -> list[str]:
        """One sentence for each broken loop."""
        return [said for loop in list(self._all.values()) if (said := loop.broken()) is not None]

    def _forget(self, loop: Loop) -> None:
        self._all.pop(id(loop), None)


def cancelled_by_owner(error: BaseException) -> bool:
    """Whether the running task itself was cancelled, not something that it awaited."""
    if not isinstance(error, asyncio.CancelledError):
        return False
    try:
        task = asyncio.current_task()
    except RuntimeError:
        return False
    return task is not None and task.cancelling() > 0
