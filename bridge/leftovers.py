"""What killed gateways left in the folder for temporary places: the places that nobody will come back to.

Rules:
- Removed is only what is provably dead and ours: a folder of our own user, with nothing in it but a bridge's lock and
  socket, whose lock can be taken. A living bridge holds its lock for as long as it lives.
- Between making its lock and taking it a bridge that starts could be robbed of it; so a young lock is left alone. Young
  is told by the files' own times, against the place of whoever looks.
- What cannot be looked at or removed stays as it is, for the next one. No more is looked at than a bounded number.
"""

import contextlib
import fcntl
import os
from itertools import islice
from pathlib import Path
from typing import Final

PREFIX: Final = "ostler-"
MADE: Final = len(PREFIX) + 8
"""How long a name of `mkdtemp` is."""
LOOKED_AT: Final = 4096
REMOVED: Final = 64
SETTLED: Final = 60.0
"""Seconds after which whoever made a lock has taken it."""


def remove_leftovers(fresh: Path, lock: str, socket: str) -> None:
    """Look beside our own fresh place, whose age is none."""
    now = fresh.stat().st_mtime
    for place in _places(fresh.parent)[:REMOVED]:
        with contextlib.suppress(OSError):
            _remove_dead(place, now, lock, socket)


def _places(folder: Path) -> list[Path]:
    """Folders that are named as a temporary place is; none where nobody may look."""
    try:
        with os.scandir(folder) as entries:
            named = (one for one in islice(entries, LOOKED_AT) if one.name.startswith(PREFIX) and len(one.name) == MADE)
            return [Path(one.path) for one in named if one.is_dir(follow_symlinks=False)]
    except OSError:
        return []


def _remove_dead(place: Path, now: float, lock: str, socket: str) -> None:
    """Raises `OSError` where something is in the way."""
    held = {each.name for each in place.iterdir()}
    if place.stat(follow_symlinks=False).st_uid != os.geteuid() or not {lock} <= held <= {lock, socket}:
        return
    handle = os.open(place / lock, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
    try:
        if now - os.fstat(handle).st_mtime < SETTLED:
            return
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        (place / socket).unlink(missing_ok=True)
        (place / lock).unlink()
        place.rmdir()
    finally:
        os.close(handle)
