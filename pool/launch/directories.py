"""The canonical directory of a path, looked up on the disk without blocking the event loop.

Rules:
- Each lookup is a `BlockingProbe`: on a thread, one per path at a time, awaited for at most `PATIENCE`.
- A known answer is used immediately, so a claim needs no thread; if it is older than `FRESH` seconds, it is looked up
  again in parallel with the claim. For a directory that was removed, one claim too many gets the old name: it meets the
  agent's own error, as if the directory had been removed a moment later. `check` does not use an old answer.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import Final

from ostler.pool.errors import BadDirectory
from ostler.process.probe import PATIENCE, BlockingProbe, ProbeFailed

FRESH: Final = 5.0
KEPT: Final = 4096

Resolve = Callable[[str], str]


class Directories:
    """Looks up directories for one event loop. `resolve` resolves a path on a thread, or raises `BadDirectory`."""

    def __init__(self, resolve: Resolve, clock: Callable[[], float]) -> None:
        self._resolve = resolve
        self._clock = clock
        self._known: OrderedDict[str, tuple[str, float]] = OrderedDict()
        self._probe: BlockingProbe[str] = BlockingProbe()

    def judge_by(self, resolve: Resolve) -> None:
        """Ask anew of every path, by other rules."""
        self._resolve = resolve
        self._known.clear()

    @property
    def idle(self) -> bool:
        """Whether no lookup is running."""
        return self._probe.idle

    def recall(self, path: str) -> str | None:
        """The known answer, or None; starts a lookup in the background when the answer is old."""
        known = self._known.get(path)
        if known is None:
            return None
        found, since = known
        if self._clock() - since >= FRESH and not self._probe.looking(path):
            with suppress(ProbeFailed):  # no thread is free: the old answer stands, and the next claim tries again
                self._probe.begin(path, partial(self._resolve, path), partial(self._learn, path))
        return found

    async def find(self, path: str, patience: float = PATIENCE) -> str:
        """The directory's canonical name, from memory if known. Raises `BadDirectory`."""
        known = self.recall(path)
        return await self._ask(path, patience) if known is None else known

    async def check(self, path: str) -> str:
        """As `find`, but an answer older than `FRESH` is looked up again: the path may have become a link since."""
        known = self._known.get(path)
        if known is not None and self._clock() - known[1] < FRESH:
            return known[0]
        return await self._ask(path, PATIENCE)

    async def _ask(self, path: str, patience: float) -> str:
        try:
            return await self._probe.find(path, partial(self._resolve, path), patience, partial(self._learn, path))
        except ProbeFailed as error:
            raise BadDirectory(path, error.why) from error
        except BadDirectory as error:
            # several callers may await this lookup: each raises an error object of its own
            raise error.again() from error

    def _learn(self, path: str, lookup: asyncio.Future[str]) -> None:
        self._known.pop(path, None)
        if not lookup.cancelled() and lookup.exception() is None:
            self._known[path] = (lookup.result(), self._clock())
            if len(self._known) > KEPT:
                self._known.popitem(last=False)
