"""What all processes of one provider share on one HOME: limits on opens and first starts, and the archive of records.

Owned by the pool and passed to every transport, because two processes on one HOME conflict just as two sessions of one
process do. gemini locks a registry file in its HOME and retries with doubling waits: 8 concurrent opens took 12.8 s,
one after another 0.2 s. opencode creates its database at its first start on a HOME; of two concurrent first starts one
ends with "database is locked".
"""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from ostler.pool.agent.record_archive import RecordArchive
from ostler.pool.provider import Provider
from ostler.process.folder import Descriptor
from ostler.process.probe import BlockingProbe


class StartGate:
    """Lets one start through at a time until one has succeeded; from then on starts do not wait.

    The pool's core orders no start that would wait here; this serves callers that create transports without a core.
    """

    def __init__(self, *, used: bool) -> None:
        self._used = used
        self._first = asyncio.Lock()

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


class PerHome:
    """Holds one of each for each (provider, HOME)."""

    def __init__(self) -> None:
        self.folders: BlockingProbe[Descriptor] = BlockingProbe()
        """Opens working directories for all transports: a dead disk blocks a bounded number of threads."""
        self._opens: dict[tuple[str, str], asyncio.Semaphore] = {}
        self._starts: dict[tuple[str, str], StartGate] = {}
        self._archives: dict[tuple[str, str], RecordArchive] = {}

    def opens(self, provider: Provider, home: str) -> asyncio.Semaphore:
        """Limits the concurrent opens of this provider's sessions on this HOME; first come, first served."""
        return self._opens.setdefault((provider.name, home), asyncio.Semaphore(provider.parallel_opens))

    def starts(self, provider: Provider, home: str) -> StartGate:
        """The gate for starting processes of this provider on this HOME."""
        return self._starts.setdefault((provider.name, home), StartGate(used=not provider.first_start_alone))

    def archive(self, provider: Provider, home: str) -> RecordArchive:
        """The archive for session records that are not in use."""
        return self._archives.setdefault((provider.name, home), RecordArchive(provider.records, home))
