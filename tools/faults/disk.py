"""A disk that fails for one program and what it runs: no privilege is asked, and nobody else's disk is touched."""

import mmap
import shutil
import struct
import subprocess
from pathlib import Path

SOURCE = Path(__file__).parent / "native" / "disk.c"
STUCK = -1


class DiskFault:
    """What the disk below `folder` says to every look, shared with the program. Its own files are in `place`."""

    def __init__(self, place: Path, folder: Path) -> None:
        self._file = place / "disk-fault"
        self._file.write_bytes(bytes(4))
        self._folder = folder
        self._library = place / "disk.so"
        compiler = shutil.which("cc")
        line = [compiler or "", "-O2", "-shared", "-fPIC", "-o", str(self._library), str(SOURCE)]
        self.works = compiler is not None and subprocess.run(line, check=False, capture_output=True).returncode == 0
        """Whether there is such a disk here: that needs a C compiler."""

    @property
    def environ(self) -> dict[str, str]:
        """What a program needs that is to meet it."""
        return {
            "LD_PRELOAD": str(self._library),
            "DISK_FAULT_FILE": str(self._file),
            "DISK_FAULT_FOLDER": str(self._folder),
        }

    def set(self, fault: int) -> None:
        """An errno, `STUCK`, or 0: the disk is well."""
        set_fault(self._file, fault)


def set_fault(file: Path, fault: int) -> None:
    """The same, by whoever was told the file."""
    with file.open("r+b") as opened, mmap.mmap(opened.fileno(), 4) as shared:
        shared[:] = struct.pack("=i", fault)
