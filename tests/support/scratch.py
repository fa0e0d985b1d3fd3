"""Where tests put their files: in memory, where there is room, unless TMPDIR says another place.

A run makes and removes some 25,000 files. On the disk they took 344 s of processor time instead of 280, and 190 s of a
clock's instead of 166: ext4 gives out no number of a file that went within the last seconds, and looks through all of
these for each new one. What a test proves is the same: it kills processes, never the machine, and what a killed process
had written is there on either. Those that need a full or a broken disk make one. What failed stays, of three runs at
most, in `/dev/shm/pytest-of-$USER`.
"""

import os
from collections.abc import MutableMapping
from pathlib import Path

MEMORY = Path("/dev/shm")
ROOM = 2 << 30
"""Bytes that must be free. A run had at most 80 MB at once."""


def use_memory(environment: MutableMapping[str, str], place: Path = MEMORY, *, room: int = ROOM) -> None:
    """For all who go by this environment."""
    if "TMPDIR" not in environment and os.access(place, os.W_OK | os.X_OK) and will_do(os.statvfs(place), room):
        environment["TMPDIR"] = str(place)


def will_do(there: os.statvfs_result, room: int) -> bool:
    """Tests write programs too, and run them."""
    return there.f_bavail * there.f_frsize >= room and not there.f_flag & os.ST_NOEXEC
