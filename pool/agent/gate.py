"""Limits on concurrent opens and first starts per HOME, over all processes that share it.

gemini locks a registry file in its HOME and retries with doubling waits: 8 concurrent opens took 12.8 s, one after
another 0.2 s. opencode creates its database at its first start on a HOME; of two concurrent first starts one ends with
"database is locked". The pool owns the gates, because two processes on one HOME conflict just as two sessions of one
process do. The pool's core orders no start that would wait here; `StartGate` serves callers that create transports
without a core.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import TracebackType


class OpenGate:
    """First come, first served. Use `async with gate:` around one open."""

    def __init__(self, width: int) -> None:
        self._places = asyncio.Semaphore(width)
        self.waiting = 0

    async def __aenter__(self) -> None:
        self.waiting += 1
        try:
            await self._places.acquire()
        finally:
            self.waiting -= 1

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._places.release()


class StartGate:
    """Lets one start through at a time until one has succeeded; from then on starts do not wait."""

    def __init__(self, *, used: bool) -> None:
        self._used = used
        self._first = OpenGate(1)

    @property
    def waiting(self) -> int:
        """Starts that wait for the one before them."""
        return self._first.waiting

    @asynccontextmanager
    async def passed(self) -> AsyncIterator[None]:
        """Wrap one start, up to its handshake. A start that raises does not count as the first success."""
        if not self._used:
            async with self._first:
                if not self._used:
                    yield
                    self._used = True
                    return
        yield
