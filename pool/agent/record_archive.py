"""Records of sessions that are not open: moved away when a session is over, moved back before a load.

Why: an agent may read every record of a directory to find the one to load, and no component removes records. Without
this module the cost of a load would grow with every session that ever existed.

Rules:
- Only where the agent's declaration says so (`Provider.records`). A record keeps its name and goes into a folder next
  to the agent's own. Nothing is deleted, and nothing is overwritten.
- Only a record that contains the session's id is moved: the file's name holds only the beginning of the id.
- The holder that took a session's record back last owns it. An earlier holder that ends later, or a rename that a slow
  disk delayed, leaves the record in place: if it were put away under a running agent, the agent would start a new file
  without the beginning.
- Each move is one rename, so a record is always in one of two places, and both are searched. A record that cannot be
  moved is logged; it costs time, or a load that is refused and a conversation that is told to a new session instead.
"""

import logging
import os
from collections.abc import Callable, Iterator
from fnmatch import fnmatchcase
from functools import partial
from glob import escape
from pathlib import Path
from typing import Protocol
from weakref import WeakValueDictionary

from ostler.pool.agent.session_transfers import SessionTransfers
from ostler.pool.provider import Records
from ostler.process.probe import BlockingProbe, ProbeFailed

log = logging.getLogger(__name__)

BESIDE = ".put-away"
"""The suffix of the archive folder's name; the folder lies next to the agent's own."""
HEAD = 4096
"""Bytes at the start of a record that contain the session id."""

Folders = tuple[Path, Path]
"""The source folder and the destination folder."""


class Holder(Protocol):
    """A session on one process; identity decides who owns the record."""

    id: str


class RecordArchive:
    """Moves the records of one provider on one HOME."""

    def __init__(self, records: Records | None, home: str) -> None:
        self._records = records
        self._home = home
        self._holders: WeakValueDictionary[str, Holder] = WeakValueDictionary()
        self._transfers = SessionTransfers()
        self._probe: BlockingProbe[list[str]] = BlockingProbe()

    async def put_away(self, holder: Holder, patience: float) -> None:
        """Move the session's record to the archive, unless another holder owns it. The agent must be done with it."""
        if self._records is not None and self._has(holder):
            work = partial(put_away, Path(self._home), self._records, holder.id, partial(self._has, holder))
            await self._move(holder.id, work, patience)

    async def take_back(self, holder: Holder, patience: float) -> None:
        """Move the session's record to where the agent looks for it, and make this holder its owner."""
        if self._records is not None:
            self._holders[holder.id] = holder
            await self._move(holder.id, partial(take_back, Path(self._home), self._records, holder.id), patience)

    def _has(self, holder: Holder) -> bool:
        return self._holders.get(holder.id, holder) is holder

    async def _move(self, session_id: str, work: Callable[[], list[str]], patience: float) -> None:
        await self._transfers.settled(session_id, patience)
        with self._transfers.under_way(session_id):
            try:
                # The key is this holder's own work: a second move must not join the first one's result.
                left = await self._probe.find(work, work, patience, place=self._home)
            # HOME itself may be unreadable: no reason to fail the open of a session
            except (ProbeFailed, OSError) as error:
                left = [str(error)]
        for why in left:
            log.warning("a record of session %s below %s was not moved: %s", session_id, self._home, why)


def put_away(home: Path, records: Records, session_id: str, wanted: Callable[[], bool]) -> list[str]:
    """Move this session's records to the archive; return one sentence for each record that stays, and why."""
    ways = [(source, source.with_name(source.name + BESIDE)) for source in home.glob(records.folders)]
    return list(_moved(ways, records, session_id, wanted))


def take_back(home: Path, records: Records, session_id: str) -> list[str]:
    """Move this session's records back; return one sentence for each record that stays, and why."""
    archives = home.glob(records.folders + BESIDE)
    ways = [(archive, archive.with_name(archive.name.removesuffix(BESIDE))) for archive in archives]
    return list(_moved(ways, records, session_id, lambda: True))


def _moved(ways: list[Folders], records: Records, session_id: str, wanted: Callable[[], bool]) -> Iterator[str]:
    pattern = records.name.format(escape(session_id[: records.known]))
    for start, end in ways:
        try:
            for name in _called(start, pattern):
                if not _names(start / name, session_id) or not wanted():
                    continue
                if (end / name).exists():
                    yield f"{end / name} is there already"
                    continue
                end.mkdir(mode=0o700, exist_ok=True)
                (start / name).rename(end / name)
        except OSError as error:  # of one project's folder: go on with the others
            yield str(error)


def _called(folder: Path, pattern: str) -> list[str]:
    """The names that match, without opening files: the archive may hold thousands."""
    with os.scandir(folder) as entries:
        return [entry.name for entry in entries if fnmatchcase(entry.name, pattern)]


def _names(path: Path, session_id: str) -> bool:
    """Whether the file contains this session id. The folder belongs to the agent: only regular files are opened."""
    if path.is_symlink() or not path.is_file():
        return False
    with path.open("rb") as file:
        return f'"{session_id}"'.encode() in file.read(HEAD)
