"""How many sessions may be opened at once on one HOME, over all processes that share it.

gemini locks a registry file in its HOME and retries with doubling waits: 8 opens at once took 12.8 s, one after another
0.2 s. The gate is the pool's, because two processes of one HOME fight as well as two sessions of one process.
"""

import asyncio
from types import TracebackType

from ostler.pool.provider import Provider


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


class OpenGates:
    """One gate for each (provider, HOME). Owned by the pool, handed to every transport."""

    def __init__(self) -> None:
        self._gates: dict[tuple[str, str], OpenGate] = {}

    def of(self, provider: Provider, home: str) -> OpenGate:
        """The gate of this provider on this HOME."""
        return self._gates.setdefault((provider.name, home), OpenGate(provider.parallel_opens))
