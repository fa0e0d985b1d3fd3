"""What a running call says on the side, from whatever thread it runs in.

Rules: a connection is the loop's alone; a write from another thread could cut a frame of its neighbour in two. What a
thread says is carried to the loop in its order, and before the result that the thread returns later. It is only news:
when more waits than the loop gets rid of, the rest is dropped.
"""

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Final

from ostler.bridge.binding import BoundCall

WAITING_LIMIT: Final = 256


class Reports:
    """The progress and the log of one call. Made on the loop's thread."""

    __slots__ = ("_call", "_home", "_loop", "_waiting")

    def __init__(self, call: BoundCall) -> None:
        self._call = call
        self._loop = asyncio.get_running_loop()
        self._home = threading.get_ident()
        self._waiting: deque[Callable[[], None]] = deque()

    def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        self._say(partial(self._call.origin.progress, self._call, progress, total, message))

    def log(self, level: str, data: object, logger: str | None = None) -> None:
        self._say(partial(self._call.origin.log, self._call, level, data, logger))

    def _say(self, what: Callable[[], None]) -> None:
        if threading.get_ident() == self._home:
            what()
        elif len(self._waiting) < WAITING_LIMIT:
            self._waiting.append(what)
            self._loop.call_soon_threadsafe(self._carry)

    def _carry(self) -> None:
        self._waiting.popleft()()
