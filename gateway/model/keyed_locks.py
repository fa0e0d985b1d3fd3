"""One line for each name: what concerns it is done in the order in which it came.

Rules: different names never wait for each other. A line that nobody stands in takes no room.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class KeyedLocks:
    """All lines of one kind."""

    def __init__(self) -> None:
        self._lines: dict[str, tuple[asyncio.Lock, int]] = {}

    def __len__(self) -> int:
        return len(self._lines)

    @asynccontextmanager
    async def stand(self, name: str) -> AsyncIterator[None]:
        """Wait until all who came before are through; then it is one's own turn until the block ends."""
        lock, many = self._lines.get(name) or (asyncio.Lock(), 0)
        self._lines[name] = (lock, many + 1)
        try:
            async with lock:
                yield
        finally:
            lock, many = self._lines.pop(name)
            if many > 1:
                self._lines[name] = (lock, many - 1)
