"""How many sessions may be opened at once on one HOME, and who may start there first, over all processes that share it.

gemini locks a registry file in its HOME and retries with doubling waits: 8 opens at once took 12.8 s, one after another
0.2 s. opencode makes its database at its first start on a HOME, and of two first starts at once one ends with "database
is locked". The gates are the pool's, because two processes of one HOME fight as well as two sessions of one process.
Its core orders no start that would wait here: that of the starts is for whoever makes transports without one.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import TracebackType


class OpenGate:
    """First come, first served. `async with gate:` around one open."""

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
    """One start at a time until one has succeeded, as often as that takes; from then on nobody waits."""

    def __init__(self, *, used: bool) -> None:
        self._used = used
        self._first = OpenGate(1)

    @property
    def waiting(self) -> int:
        """Starts that wait for the one before them."""
        return self._first.waiting

    @asynccontextmanager
    async def passed(self) -> AsyncIterator[None]:
        """Around one start, up to its handshake."""
        if not self._used:
            async with self._first:
                if not self._used:
                    yield
                    self._used = True
                    return
        yield
