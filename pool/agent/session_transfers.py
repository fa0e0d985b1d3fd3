"""Sessions that are on their way: let go by one process, or brought back by another.

Why: where everybody leaves a process that is replaced, somebody comes back in the same moment. The load would overtake
the end of the very session, and an agent that archives what it closes would bury it under the load.

Rules: one way at a time for each session. Who waits holds nothing that others need, and waits no longer than an agent
has to let a session go: a process may be replaced because it hangs.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, suppress


class SessionTransfers:
    """Of one pool."""

    def __init__(self) -> None:
        self._under_way: dict[str, asyncio.Event] = {}

    @contextmanager
    def under_way(self, session_id: str) -> Iterator[None]:
        """Around the whole way."""
        over = self._under_way[session_id] = asyncio.Event()
        try:
            yield
        finally:
            over.set()
            if self._under_way.get(session_id) is over:
                del self._under_way[session_id]

    def is_under_way(self, session_id: str) -> bool:
        """Whether there is something to wait for."""
        return session_id in self._under_way

    async def settled(self, session_id: str, patience: float) -> None:
        """Wait until there is nothing to wait for any more, but no longer than so many seconds."""
        with suppress(TimeoutError):
            async with asyncio.timeout(patience):
                while (over := self._under_way.get(session_id)) is not None:
                    await over.wait()
