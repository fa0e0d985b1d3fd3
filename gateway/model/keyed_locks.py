"""One lock for each name: work on one name is done in the order in which it came.

Rules: different names never wait for each other. A name that no task holds or waits for takes no memory.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class KeyedLocks:
    """The locks of one kind of name, for example sessions."""

    def __init__(self) -> None:
        self._locks: dict[str, tuple[asyncio.Lock, int]] = {}

    def __len__(self) -> int:
        return len(self._locks)

    @asynccontextmanager
    async def hold(self, name: str) -> AsyncIterator[None]:
        """Hold the lock of this name for the block. Waiting tasks get it in the order in which they came."""
        lock, many = self._locks.get(name) or (asyncio.Lock(), 0)
        self._locks[name] = (lock, many + 1)
        try:
            async with lock:
                yield
        finally:
            lock, many = self._locks.pop(name)
            if many > 1:
                self._locks[name] = (lock, many - 1)
