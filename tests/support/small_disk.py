"""A disk that can be filled: a small one of our own, and what takes all its room.

Rules: nobody else's disk is ever filled. It is full when the kernel says so: a write was refused with ENOSPC.
"""

import errno
import io
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

PIECE = bytes(1 << 20)


@contextmanager
def small_disk(folder: Path, size: str) -> Iterator[bool]:
    """Mounted on the folder, of so much; False where we may not mount one."""
    line = [shutil.which("mount") or "mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(folder)]
    mounted = subprocess.run(line, check=False, capture_output=True).returncode == 0
    try:
        yield mounted
    finally:
        if mounted:
            subprocess.run(["umount", "-l", str(folder)], check=True)


class Ballast:
    """What takes the room."""

    def __init__(self, file: io.FileIO) -> None:
        self._file = file

    def fill(self) -> int:
        """How many bytes of room there were. After the first time: what somebody gave back meanwhile."""
        taken = 0
        try:
            while True:
                taken += self._file.write(PIECE)
        except OSError as refused:
            if refused.errno != errno.ENOSPC:
                raise
        return taken


@contextmanager
def filled(folder: Path) -> Iterator[Ballast]:
    """There is no room on the disk of this folder for as long as the block lasts."""
    with tempfile.TemporaryFile(dir=folder, buffering=0) as file:
        ballast = Ballast(file)
        ballast.fill()
        yield ballast
