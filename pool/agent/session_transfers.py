"""Sessions in transfer: being released by one process, or being loaded by another.

Why: when a process is replaced, all its sessions leave it, and some come back in the same moment. The load would
overtake the end of the same session, and an agent that archives what it closes would archive the session that was just
loaded.

Rules: one transfer at a time for each session. A waiting caller holds nothing that others need, and waits no longer
than an agent has for releasing a session: a process may be replaced because it hangs.
"""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager, suppress


class SessionTransfers:
    """Tracks the transfers of one pool, or of one archive."""

    def __init__(self) -> None:
        self._under_way: dict[str, asyncio.Event] = {}

    @contextmanager
    def under_way(self, session_id: str) -> Iterator[None]:
        """Wrap the whole transfer of this session."""
        over = self._under_way[session_id] = asyncio.Event()
        try:
            yield
        finally:
            over.set()
            if self._under_way.get(session_id) is over:
                del self._under_way[session_id]

    def is_under_way(self, session_id: str) -> bool:
        """Whether a transfer of this session is running."""
        return session_id in self._under_way

    async def settled(self, session_id: str, patience: float) -> None:
        """Wait until no transfer of this session runs, at most `patience` seconds."""
        with suppress(TimeoutError):
            async with asyncio.timeout(patience):
                while (over := self._under_way.get(session_id)) is not None:
                    await over.wait()
