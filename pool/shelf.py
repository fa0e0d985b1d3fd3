"""Records of sessions that nobody has open: put away when their seat ends, taken back before a load.

Why: an agent may read every record of a directory to find the one that it is to load, and nobody removes any. What a
session costs that comes back would grow with each one that ever was.

Rules:
- Only where the agent's declaration says so (`Provider.records`). A record keeps its name and goes into a folder beside
  the agent's own. Nothing is deleted, and nothing is overwritten.
- Only a record that names the session itself is moved: its file's name holds no more than the beginning of the id.
- A rename each, so a record is always in one of two places, and both are looked into. What could not be moved is told
  in the log: it costs time, or a load that is refused and told instead.
"""

import logging
import os
from collections.abc import Callable
from fnmatch import fnmatchcase
from functools import partial
from glob import escape
from pathlib import Path

from ostler.pool.launch import Launch
from ostler.pool.looks import Looks, NoLook
from ostler.pool.provider import Records

log = logging.getLogger(__name__)

BESIDE = ".put-away"
"""What the folder beside is called, behind the name of the agent's own."""
HEAD = 4096
"""Bytes of a record in which it says whose it is."""


Way = Callable[[Path, Records, str], int]


class Shelf:
    """Of one process."""

    def __init__(self, launch: Launch) -> None:
        self._records = launch.provider.records
        self._home = launch.home
        self._patience = launch.settings.deadlines.close
        self._looks: Looks[int] = Looks()

    async def put_away(self, session_id: str) -> None:
        """Out of the agent's sight. It must not write to it any more."""
        await self._move(put_away, session_id)

    async def take_back(self, session_id: str) -> None:
        """To where the agent looks for it."""
        await self._move(take_back, session_id)

    async def _move(self, way: Way, session_id: str) -> None:
        if self._records is None:
            return
        name, work = (way, session_id), partial(way, Path(self._home), self._records, session_id)
        try:
            await self._looks.find(name, work, self._patience, place=self._home)
        except (NoLook, OSError) as error:
            log.warning("the record of session %s below %s was not moved: %s", session_id, self._home, error)


def put_away(home: Path, records: Records, session_id: str) -> int:
    """How many files went."""
    return sum(_moved(desk, _beside(desk), records, session_id) for desk in home.glob(records.folders))


def take_back(home: Path, records: Records, session_id: str) -> int:
    """How many files came."""
    return sum(_moved(_beside(desk), desk, records, session_id) for desk in home.glob(records.folders))


def _beside(desk: Path) -> Path:
    return desk.with_name(desk.name + BESIDE)


def _moved(start: Path, end: Path, records: Records, session_id: str) -> int:
    moved = 0
    for name in _called(start, records.name.format(escape(session_id[: records.known]))):
        if (end / name).exists() or not _names(start / name, session_id):
            continue
        end.mkdir(mode=0o700, exist_ok=True)
        (start / name).rename(end / name)
        moved += 1
    return moved


def _called(folder: Path, pattern: str) -> list[str]:
    """Names only: there may be thousands on the shelf."""
    try:
        with os.scandir(folder) as entries:
            return [entry.name for entry in entries if fnmatchcase(entry.name, pattern)]
    except FileNotFoundError:
        return []


def _names(path: Path, session_id: str) -> bool:
    """Whether the file says that it is this session's. It is somebody else's folder: what is no file is not opened."""
    if path.is_symlink() or not path.is_file():
        return False
    with path.open("rb") as file:
        return f'"{session_id}"'.encode() in file.read(HEAD)
