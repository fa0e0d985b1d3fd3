"""Where tests put their files: in memory, where there is room, unless TMPDIR says another place.

A run makes and removes some 25,000 files. On a disk's file system that took 64 of 344 s of processor time, 25 of 190 s
in all: ext4 gives out no number of a file that went within the last seconds, and looks
through all of these for each new one. What a test proves is the same: it kills processes, never the machine, and what a
killed process had written is there on either. Those that need a full or a broken disk make one.
"""

import os
import tempfile
from pathlib import Path

MEMORY = Path("/dev/shm")
ROOM = 2 << 30
"""Bytes that must be free. A run had at most 80 MB at once."""


def use_memory(place: Path = MEMORY, *, room: int = ROOM) -> None:
    """For this process and all that it starts. A place where nothing may be executed will not do."""
    if "TMPDIR" in os.environ or not os.access(place, os.W_OK | os.X_OK):
        return
    there = os.statvfs(place)
    if there.f_bavail * there.f_frsize >= room and not there.f_flag & os.ST_NOEXEC:
        os.environ["TMPDIR"] = str(place)
        tempfile.tempdir = None
