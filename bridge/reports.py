"""Progress and log messages of a running call, from any thread that the call runs in.

Rules: only the loop's thread may write to a connection; a write from another thread could split another call's frame. A
thread's messages reach the loop in their order, and before the result that the thread returns later. When more than
`WAITING_LIMIT` messages wait for the loop, further ones are dropped.
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
    """The progress and the log of one call. Created on the loop's thread."""

    __slots__ = ("_call", "_loop", "_loop_thread", "_waiting")

    def __init__(self, call: BoundCall) -> None:
        self._call = call
        self._loop = asyncio.get_running_loop()
        self._loop_thread = threading.get_ident()
        self._waiting: deque[Callable[[], None]] = deque()

    def progress(self, progress: float, total: float | None = None, message: str | None = None) -> None:
        self._say(partial(self._call.origin.progress, self._call, progress, total, message))

    def log(self, level: str, data: object, logger: str | None = None) -> None:
        self._say(partial(self._call.origin.log, self._call, level, data, logger))

    def _say(self, what: Callable[[], None]) -> None:
        if threading.get_ident() == self._loop_thread:
            what()
        elif len(self._waiting) < WAITING_LIMIT:
            self._waiting.append(what)
            self._loop.call_soon_threadsafe(self._carry)

    def _carry(self) -> None:
        self._waiting.popleft()()
