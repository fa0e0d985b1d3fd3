"""Checks for faults outside the agents that keep a gateway from serving, repeated every few seconds.

Rules:
- File system calls run in a thread with a time limit; one that does not return is a problem too.
- A failed write is a problem until a write succeeds, either one of a client or the trial write made here. No trial is
  made while the disk is full, and the pause between trials grows.
- A problem has two texts: `text` names settings and no path, because `/readyz` answers without a key; `detail` is for
  operators. Both say what to do.
- An error of one round is logged, and the next round runs.
"""

import asyncio
import logging
import os
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Final

from ostler.gateway.model.errors import (
    StoreBusy,
    StoreCorrupt,
    StoreError,
    StoreFault,
    StoreFull,
    StoreReadOnly,
)
from ostler.gateway.model.store import StoreWatch
from ostler.metrics.loops import Loops
from ostler.pool.errors import BadDirectory
from ostler.process.probe import BlockingProbe, ProbeFailed

log = logging.getLogger(__name__)
EVERY: Final = 5.0
SELDOM: Final = 60.0
"""Maximum seconds between two trial writes while the store stays broken."""
PATIENCE: Final = 2.0
ROOM: Final = 64 * 1024
"""A disk with fewer free bytes counts as full; the store uses the same limit."""


@dataclass(frozen=True, slots=True)
class Problem:
    """A fault that an operator must fix."""

    text: str
    detail: str


Check = Callable[[], Awaitable[Problem | None]]
FAULTS: Mapping[str, str] = {
    StoreFull.__name__: "the disk of the data folder is full: free some space",
    StoreReadOnly.__name__: "the data folder cannot be written to: check its owner, its mode and its disk",
    StoreCorrupt.__name__: "the database is damaged: keep a copy, then restore a backup or import the mirrors",
    StoreFault.__name__: "the database refuses what is to be stored: see the log",
}
OTHER = "what is said cannot be stored: see the log"


@dataclass
class LastWrite:
    """A `StoreWatch` that remembers the last fault. The store's thread sets it, the event loop reads it."""

    then: StoreWatch
    """The watch that receives every call after this one."""
    fault: str | None = None

    def stored(self, waits: Sequence[float]) -> None:
        self.fault = None
        self.then.stored(waits)

    def failed(self, kind: str, count: int) -> None:
        if kind != StoreBusy.__name__:  # a queue that is full for a moment is no fault of the store
            self.fault = kind
        self.then.failed(kind, count)


@dataclass
class Checks:
    """All checks of one gateway. Created by `app.py`, which runs it. `checks` are checks by name; `trial` writes
    something."""

    folder: Path
    last_write: LastWrite
    trial: Callable[[], Awaitable[None]]
    checks: Mapping[str, Check]
    clock: Callable[[], float]
    loops: Loops = field(default_factory=Loops)
    disk: BlockingProbe[Any] = field(default_factory=BlockingProbe)
    _found: dict[str, Problem] = field(default_factory=dict)
    _logged: list[Problem] = field(default_factory=list)
    """The problems that the last round logged."""
    _next_trial: float = 0.0
    _pause: float = EVERY

    @property
    def problems(self) -> list[Problem]:
        """The problems known now. A failed write counts at once, without waiting for the next round."""
        fault = self.last_write.fault
        found = dict(self._found)
        if fault is not None and "disk" not in found:
            found["store"] = self._unwritten(fault)
        return list(found.values())

    async def run(self) -> None:
        """Run a round every `EVERY` seconds."""
        loop = self.loops.add("the checks of disk, directory and model")
        with loop.running():
            while True:
                await asyncio.sleep(EVERY)
                with loop.round():
                    await self.run_once()

    async def run_once(self) -> None:
        """Run every check once, and log problems that are new or gone."""
        for name, check in {"disk": self._disk, **self.checks}.items():
            try:
                problem = await check()
            except Exception:
                log.exception("the check %r failed", name)
                continue
            if problem is None:
                self._found.pop(name, None)
            else:
                self._found[name] = problem
        await self._try_to_store()
        before, self._logged = self._logged, self.problems
        for problem in self._logged:
            if problem not in before:
                log.error("not ready: %s", problem.detail)
        if before and not self._logged:
            log.info("ready again: %s", "; ".join(problem.text for problem in before))

    async def _disk(self) -> Problem | None:
        try:
            room = await self.disk.find("room", partial(os.statvfs, self.folder), PATIENCE)
        except (OSError, ProbeFailed) as error:
            return Problem("the data folder cannot be read: check its disk", f"the data folder {self.folder}: {error}")
        if room.f_bavail * room.f_frsize >= ROOM:
            return None
        text = FAULTS[StoreFull.__name__]
        return Problem(text, f"{text} on the disk of {self.folder}; nothing is stored meanwhile, reading still works")

    async def _try_to_store(self) -> None:
        """Make a trial write if the last write failed: without clients, no other write would discover that the store
        works again."""
        if self.last_write.fault is None:
            self._pause, self._next_trial = EVERY, 0.0
        elif "disk" not in self._found and self.clock() >= self._next_trial:
            self._next_trial = self.clock() + self._pause
            self._pause = min(self._pause * 2, SELDOM)
            try:
                await self.trial()
            except StoreError as error:
                log.debug("the store still fails: %s", error)

    def _unwritten(self, fault: str) -> Problem:
        text = FAULTS.get(fault, OTHER)
        return Problem(text, f"{text}; the last write to {self.folder} failed ({fault}), reading still works")


def directory_check(find: Callable[[str], str], work: Path) -> Check:
    """Check the directory of requests that name none. `find` resolves a path and may block."""
    disk: BlockingProbe[str] = BlockingProbe()

    async def check() -> Problem | None:
        text = "the directory of requests that name none cannot be used: make it, or set gateway.default_cwd"
        try:
            await disk.find("work", partial(find, str(work)), PATIENCE)
        except BadDirectory as error:
            return Problem(text, f"{error}; make it, or set gateway.default_cwd")
        except ProbeFailed as error:
            return Problem(text, f"{work}: {error}; mend its disk, or set gateway.default_cwd")
        return None

    return check


def model_check(model: str, trouble: Callable[[], Awaitable[str]]) -> Check:
    """Check that the agent of the default model can be started."""

    async def check() -> Problem | None:
        why = await trouble()
        if not why:
            return None
        text = "the agent of gateway.default_model cannot be started: `ostler doctor` says what is missing"
        return Problem(text, f"the default model {model!r} cannot be started: {why}")

    return check
