"""A clock that can be turned for one program and what it runs: no privilege is asked, and nobody else's clock moves.

Only the wall clock: no machine ever turns its monotonic one, and a time namespace can turn nothing else.
"""

import mmap
import shutil
import struct
import subprocess
from pathlib import Path

SOURCE = Path(__file__).parent / "native" / "clock.c"


class WallClock:
    """The number of seconds by which it is wrong, shared with the program."""

    def __init__(self, folder: Path) -> None:
        self._file = folder / "clock"
        self._file.write_bytes(bytes(8))
        self._library = folder / "clock.so"
        compiler = shutil.which("cc")
        line = [compiler or "", "-O2", "-shared", "-fPIC", "-o", str(self._library), str(SOURCE)]
        self.turns = compiler is not None and subprocess.run(line, check=False, capture_output=True).returncode == 0
        """Whether it can be turned here: that needs a C compiler."""

    @property
    def environ(self) -> dict[str, str]:
        """What a program needs that is to believe it."""
        if not self.turns:
            return {}
        return {"LD_PRELOAD": str(self._library), "CLOCK_OFFSET_FILE": str(self._file)}

    def turn(self, seconds: int) -> None:
        """Let it be wrong by so much from now on."""
        with self._file.open("r+b") as file, mmap.mmap(file.fileno(), 8) as shared:
            shared[:] = struct.pack("=q", seconds)
