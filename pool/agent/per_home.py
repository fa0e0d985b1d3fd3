"""What all processes of one provider have in common on one HOME: the gates before their opens and starts, and the shelf
for their records.

Owned by the pool and handed to every transport, because two processes of one HOME get in each other's way as well as
two sessions of one process.
"""

from ostler.pool.agent.gate import OpenGate, StartGate
from ostler.pool.agent.record_archive import RecordArchive
from ostler.pool.provider import Provider
from ostler.process.folder import Descriptor
from ostler.process.probe import BlockingProbe


class PerHome:
    """One of each for each (provider, HOME)."""

    def __init__(self) -> None:
        self.folders: BlockingProbe[Descriptor] = BlockingProbe()
        """The opening of working directories, for all of them: a dead disk takes only so many threads."""
        self._opens: dict[tuple[str, str], OpenGate] = {}
        self._starts: dict[tuple[str, str], StartGate] = {}
        self._shelves: dict[tuple[str, str], RecordArchive] = {}

    def opens(self, provider: Provider, home: str) -> OpenGate:
        """The gate of this provider's sessions on this HOME."""
        return self._opens.setdefault((provider.name, home), OpenGate(provider.parallel_opens))

    def starts(self, provider: Provider, home: str) -> StartGate:
        """The gate of its processes."""
        return self._starts.setdefault((provider.name, home), StartGate(used=not provider.first_start_alone))

    def archive(self, provider: Provider, home: str) -> RecordArchive:
        """Where the records go that nobody needs now."""
        return self._shelves.setdefault((provider.name, home), RecordArchive(provider.records, home))
