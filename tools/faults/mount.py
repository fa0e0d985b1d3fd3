"""A mount that can be made dead for one program: no privilege is asked, and nobody else waits."""

import shutil
import subprocess
from pathlib import Path

SOURCE = Path(__file__).parent / "native" / "mount.c"


class DeadMount:
    """A directory below which looks of the program wait while it is dead."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "mount"
        self.path.mkdir()
        self._flag = folder / "mount-is-dead"
        self._library = folder / "mount.so"
        compiler = shutil.which("cc")
        line = [compiler or "", "-O2", "-shared", "-fPIC", "-o", str(self._library), str(SOURCE), "-ldl"]
        self.works = compiler is not None and subprocess.run(line, check=False, capture_output=True).returncode == 0
        """Whether it can be made dead here: that needs a C compiler."""

    @property
    def environ(self) -> dict[str, str]:
        """What a program needs to have it."""
        return {
            "LD_PRELOAD": str(self._library),
            "DEAD_MOUNT": str(self.path),
            "DEAD_MOUNT_FLAG": str(self._flag),
        }

    def die(self) -> None:
        """From now on looks wait."""
        self._flag.touch()

    def revive(self) -> None:
        """They all come back."""
        self._flag.unlink(missing_ok=True)
