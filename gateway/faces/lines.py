"""One line for each conversation: what comes in is taken in its order.

Rules: a message stands in line while its session is found and its turn is queued, a command while it runs. Different
conversations never wait for each other. A line that nobody stands in takes no room.
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager


class Lines:
    """The lines of one gateway."""

    def __init__(self) -> None:
        self._lines: dict[str, tuple[asyncio.Lock, int]] = {}

    def __len__(self) -> int:
        return len(self._lines)

    @asynccontextmanager
    async def stand(self, key: str) -> AsyncIterator[None]:
        """Wait until all who came before are through; then it is one's own turn until the block ends."""
        lock, many = self._lines.get(key) or (asyncio.Lock(), 0)
        self._lines[key] = (lock, many + 1)
        try:
            async with lock:
                yield
        finally:
            lock, many = self._lines.pop(key)
            if many > 1:
                self._lines[key] = (lock, many - 1)
