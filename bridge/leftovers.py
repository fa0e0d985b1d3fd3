"""Removes the temporary directories that killed gateways left behind.

Rules:
- Only a directory that is provably dead and of this kind is removed: owned by the gateway's user, with nothing in it
  but a bridge's lock and socket, and with a lock that can be taken. A living bridge holds its lock for as long as it
  lives.
- A starting bridge could lose its directory between creating its lock and taking it, so a young lock is left alone. The
  age is the difference between the files' own times and that of the new directory of the searching bridge.
- What cannot be read or removed stays for the next bridge. The number of entries examined is bounded.
"""

import contextlib
import fcntl
import os
from itertools import islice
from pathlib import Path
from typing import Final

PREFIX: Final = "ostler-"
MADE: Final = len(PREFIX) + 8
"""The length of a `mkdtemp` name with this prefix."""
LOOKED_AT: Final = 4096
REMOVED: Final = 64
SETTLED: Final = 60.0
"""Seconds after which the creator of a lock has certainly taken it."""


def remove_leftovers(fresh: Path, lock: str, socket: str) -> None:
    """Remove dead directories next to `fresh`, the caller's new directory, whose time counts as now."""
    now = fresh.stat().st_mtime
    for place in _places(fresh.parent)[:REMOVED]:
        with contextlib.suppress(OSError):
            _remove_dead(place, now, lock, socket)


def _places(folder: Path) -> list[Path]:
    """Directories named like a temporary one; empty if the folder cannot be read."""
    try:
        with os.scandir(folder) as entries:
            named = (one for one in islice(entries, LOOKED_AT) if one.name.startswith(PREFIX) and len(one.name) == MADE)
            return [Path(one.path) for one in named if one.is_dir(follow_symlinks=False)]
    except OSError:
        return []


def _remove_dead(place: Path, now: float, lock: str, socket: str) -> None:
    """Remove the directory if it is dead. Raises `OSError` if something prevents it."""
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
