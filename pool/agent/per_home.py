"""What all processes of one provider share on one HOME: the gates for opens and starts, and the archive for records.

Owned by the pool and passed to every transport, because two processes on one HOME conflict just as two sessions of one
process do.
"""

from ostler.pool.agent.gate import OpenGate, StartGate
from ostler.pool.agent.record_archive import RecordArchive
from ostler.pool.provider import Provider
from ostler.process.folder import Descriptor
from ostler.process.probe import BlockingProbe


class PerHome:
    """Holds one gate of each kind and one archive for each (provider, HOME)."""

    def __init__(self) -> None:
        self.folders: BlockingProbe[Descriptor] = BlockingProbe()
        """Opens working directories for all transports: a dead disk blocks a bounded number of threads."""
        self._opens: dict[tuple[str, str], OpenGate] = {}
        self._starts: dict[tuple[str, str], StartGate] = {}
        self._archives: dict[tuple[str, str], RecordArchive] = {}

    def opens(self, provider: Provider, home: str) -> OpenGate:
        """The gate for opening sessions of this provider on this HOME."""
        return self._opens.setdefault((provider.name, home), OpenGate(provider.parallel_opens))

    def starts(self, provider: Provider, home: str) -> StartGate:
        """The gate for starting processes of this provider on this HOME."""
        return self._starts.setdefault((provider.name, home), StartGate(used=not provider.first_start_alone))

    def archive(self, provider: Provider, home: str) -> RecordArchive:
        """The archive for session records that are not in use."""
        return self._archives.setdefault((provider.name, home), RecordArchive(provider.records, home))
