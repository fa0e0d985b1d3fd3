"""Records of sessions that nobody has open: put away when they are over, taken back before a load.

Why: an agent may read every record of a directory to find the one that it is to load, and nobody removes any. What a
session costs that comes back would grow with each one that ever was.

Rules:
- Only where the agent's declaration says so (`Provider.records`). A record keeps its name and goes into a folder beside
  the agent's own. Nothing is deleted, and nothing is overwritten.
- Only a record that names the session itself is moved: its file's name holds no more than the beginning of the id.
- Whoever took a session's record back last has it: an earlier holder that ends later, or a rename that a slow disk
  held up, leaves it where it is. A record that is put away under an agent would be begun anew, without its beginning.
- A rename each, so a record is always in one of two places, and both are looked into. What could not be moved is told
  in the log: it costs time, or a load that is refused and told instead.
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
"""What the folder beside is called, behind the name of the agent's own."""
HEAD = 4096
"""Bytes of a record in which it says whose it is."""

Folders = tuple[Path, Path]
"""From where to where."""


class Holder(Protocol):
    """A session on one process."""

    id: str


class RecordArchive:
    """Of one provider on one HOME."""

    def __init__(self, records: Records | None, home: str) -> None:
        self._records = records
        self._home = home
        self._holders: WeakValueDictionary[str, Holder] = WeakValueDictionary()
        self._moving = SessionTransfers()
        self._looks: BlockingProbe[list[str]] = BlockingProbe()

    async def put_away(self, holder: Holder, patience: float) -> None:
        """Out of the agent's sight. It must not write to it any more."""
        if self._records is not None and self._has(holder):
            work = partial(put_away, Path(self._home), self._records, holder.id, partial(self._has, holder))
            await self._move(holder.id, work, patience)

    async def take_back(self, holder: Holder, patience: float) -> None:
        """To where the agent looks for it."""
        if self._records is not None:
            self._holders[holder.id] = holder
            await self._move(holder.id, partial(take_back, Path(self._home), self._records, holder.id), patience)

    def _has(self, holder: Holder) -> bool:
        return self._holders.get(holder.id, holder) is holder

    async def _move(self, session_id: str, work: Callable[[], list[str]], patience: float) -> None:
        await self._moving.settled(session_id, patience)
        with self._moving.under_way(session_id):
            try:
                # Named by the holder's own work, for nobody joins another one's.
                left = await self._looks.find(work, work, patience, place=self._home)
            except (ProbeFailed, OSError) as error:  # HOME itself, for instance: no reason to end the open of a session
                left = [str(error)]
        for why in left:
            log.warning("a record of session %s below %s was not moved: %s", session_id, self._home, why)


def put_away(home: Path, records: Records, session_id: str, wanted: Callable[[], bool]) -> list[str]:
    """Move all that is this session's; what was left, and why."""
    ways = [(desk, desk.with_name(desk.name + BESIDE)) for desk in home.glob(records.folders)]
    return list(_moved(ways, records, session_id, wanted))


def take_back(home: Path, records: Records, session_id: str) -> list[str]:
    """Move all that is this session's; what was left, and why."""
    shelves = home.glob(records.folders + BESIDE)
    ways = [(shelf, shelf.with_name(shelf.name.removesuffix(BESIDE))) for shelf in shelves]
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
        except OSError as error:  # of one project: the others have theirs
            yield str(error)


def _called(folder: Path, pattern: str) -> list[str]:
    """Names only: there may be thousands on the shelf."""
    with os.scandir(folder) as entries:
        return [entry.name for entry in entries if fnmatchcase(entry.name, pattern)]


def _names(path: Path, session_id: str) -> bool:
    """Whether the file says that it is this session's. It is somebody else's folder: what is no file is not opened."""
    if path.is_symlink() or not path.is_file():
        return False
    with path.open("rb") as file:
        return f'"{session_id}"'.encode() in file.read(HEAD)
