"""Which directory a path really is, asked of the disk without making the loop wait for the disk.

Rules:
- Each look is made as `looks` says: on a thread, one per path at a time, waited for with `PATIENCE` at most.
- What was found is believed at once, so a claim costs no hop to a thread; when it is older than `FRESH` seconds it is
  asked for anew, beside the claim. Of a directory that has gone, one claim too many hears the old name: it meets the
  agent's own error, as it would had the directory gone a moment later. `check` does not believe an old answer.
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

Look = Callable[[str], str]


class Directories:
    """On one loop. `look` resolves and judges a path, on any thread; it raises `BadDirectory`."""

    def __init__(self, look: Look, clock: Callable[[], float]) -> None:
        self._look = look
        self._clock = clock
        self._known: OrderedDict[str, tuple[str, float]] = OrderedDict()
        self._looks: BlockingProbe[str] = BlockingProbe()

    def judge_by(self, look: Look) -> None:
        """Ask anew of every path, by other rules."""
        self._look = look
        self._known.clear()

    @property
    def idle(self) -> bool:
        """Whether no look is under way."""
        return self._looks.idle

    def recall(self, path: str) -> str | None:
        """What is known already, at once."""
        known = self._known.get(path)
        if known is None:
            return None
        found, since = known
        if self._clock() - since >= FRESH and not self._looks.looking(path):
            with suppress(ProbeFailed):  # no thread to be had: the old answer stands, and the next claim tries again
                self._looks.begin(path, partial(self._look, path), partial(self._learn, path))
        return found

    async def find(self, path: str, patience: float = PATIENCE) -> str:
        """The directory's one name. Raises `BadDirectory`."""
        known = self.recall(path)
        return await self._ask(path, patience) if known is None else known

    async def check(self, path: str) -> str:
        """As `find`, but an answer older than `FRESH` is not believed: a link may have been put there since."""
        known = self._known.get(path)
        if known is not None and self._clock() - known[1] < FRESH:
            return known[0]
        return await self._ask(path, PATIENCE)

    async def _ask(self, path: str, patience: float) -> str:
        try:
            return await self._looks.find(path, partial(self._look, path), patience, partial(self._learn, path))
        except ProbeFailed as error:
            raise BadDirectory(path, error.why) from error
        except BadDirectory as error:
            raise error.again() from error  # one of each waiter's own

    def _learn(self, path: str, look: asyncio.Future[str]) -> None:
        self._known.pop(path, None)
        if not look.cancelled() and look.exception() is None:
            self._known[path] = (look.result(), self._clock())
            if len(self._known) > KEPT:
                self._known.popitem(last=False)
