"""Which directory a path really is, asked of the disk without making the loop wait for the disk.

Rules:
- A look at a dead network mount never comes back. So each is made on a thread of its own, a daemon, because nothing can
  end it and the end of the process must not wait for it. There are at most `LOOKS` of them.
- There is one look per path at a time; whoever asks meanwhile waits for the same one, for `PATIENCE` at most.
- What was found is believed at once, so a claim costs no hop to a thread; when it is older than `FRESH` seconds it is
  asked for anew, beside the claim. Of a directory that has gone, one claim too many hears the old name: it meets the
  agent's own error, as it would had the directory gone a moment later.
"""

import asyncio
import threading
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from contextvars import Context
from typing import Final

from ostler.pool.errors import BadDirectory

LOOKS: Final = 16
PATIENCE: Final = 10.0
FRESH: Final = 5.0
KEPT: Final = 4096

Look = Callable[[str], str]
Found = asyncio.Future[str]


class Directories:
    """On one loop. `look` resolves and judges a path, on any thread; it raises `BadDirectory`."""

    def __init__(self, look: Look, clock: Callable[[], float]) -> None:
        self._look = look
        self._clock = clock
        self._known: OrderedDict[str, tuple[str, float]] = OrderedDict()
        self._looks: dict[str, Found] = {}

    @property
    def idle(self) -> bool:
        """Whether no look is under way."""
        return not self._looks

    def recall(self, path: str) -> str | None:
        """What is known already, at once."""
        known = self._known.get(path)
        if known is None:
            return None
        found, since = known
        if self._clock() - since >= FRESH and path not in self._looks and len(self._looks) < LOOKS:
            with suppress(BadDirectory):  # no thread to be had: the old answer stands, and the next claim tries again
                self._begin(path)
        return found

    async def find(self, path: str, patience: float = PATIENCE) -> str:
        """The directory's one name. Raises `BadDirectory`."""
        known = self.recall(path)
        if known is not None:
            return known
        look = self._looks.get(path)
        if look is None:
            if len(self._looks) >= LOOKS:
                raise BadDirectory(path, f"{LOOKS} looks at other directories have not come back; is a disk dead?")
            look = self._begin(path)
        patience = min(patience, PATIENCE)
        await _wait_for(look, patience)
        if not look.done():
            raise BadDirectory(path, f"its file system did not answer within {patience:.3g} s")
        try:
            return look.result()
        except BadDirectory as error:
            raise BadDirectory(error.cwd, error.why) from error  # one of each waiter's own

    def _begin(self, path: str) -> Found:
        loop = asyncio.get_running_loop()
        look: Found = loop.create_future()

        def work() -> None:
            try:
                found: str | Exception = self._look(path)
            except Exception as error:  # noqa: BLE001 (raised again where it is awaited; here nobody would see it)
                found = error
            try:
                loop.call_soon_threadsafe(_settle, look, found)
            except RuntimeError:
                if not loop.is_closed():
                    raise

        try:
            threading.Thread(target=work, name=f"look at {path}", daemon=True).start()
        except RuntimeError as error:
            raise BadDirectory(path, f"it could not be looked at: {error}") from error
        # Not before it has begun: a look that nobody makes would be waited for by all who ask for the path.
        self._looks[path] = look
        # In a context of its own: what the first claimer carries must not live on in the look.
        look.add_done_callback(lambda done: self._learn(path, done), context=Context())
        return look

    def _learn(self, path: str, look: Found) -> None:
        del self._looks[path]
        self._known.pop(path, None)
        if not look.cancelled() and look.exception() is None:
            self._known[path] = (look.result(), self._clock())
            if len(self._known) > KEPT:
                self._known.popitem(last=False)


async def _wait_for(look: Found, patience: float) -> None:
    """Not `asyncio.timeout`: its timer, cancelled, would keep the claimer's context until it would have rung."""
    loop = asyncio.get_running_loop()
    waiter: asyncio.Future[None] = loop.create_future()

    def wake(_look: Found) -> None:
        if not waiter.done():
            waiter.set_result(None)

    look.add_done_callback(wake, context=Context())
    alarm = loop.call_later(patience, wake, look, context=Context())
    try:
        await waiter
    finally:
        alarm.cancel()
        look.remove_done_callback(wake)


def _settle(look: Found, found: str | Exception) -> None:
    if look.cancelled():
        return
    if isinstance(found, Exception):
        look.set_exception(found)
    else:
        look.set_result(found)
