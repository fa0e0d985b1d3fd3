"""Finds an agent's program on the PATH of the child, and bypasses launchers where it can.

Rules:
- A Node launcher costs a process and seconds of start, and swallows signals: the script or the native binary behind it
  is started directly if it is recognised. An unrecognised command is started as found.
- No program is run to find out: only the PATH, symlinks and files next to the package are read.
"""

import os
import shutil
from pathlib import Path

from ostler.pool.errors import AgentMissing

SCRIPTS = (".js", ".mjs", ".cjs")
UP = 8
"""How many folders above a script its package may lie."""


class PathFinder:
    """Searches one PATH. Every method raises `AgentMissing`."""

    def __init__(self, path: str) -> None:
        self._path = path

    def program(self, name: str, *, install: str) -> str:
        """The absolute path of a command."""
        found = shutil.which(name, path=self._path)
        if found is None:
            raise AgentMissing(program=name, path=self._path, install=install)
        return str(Path(found).absolute())

    def node_script(self, name: str, *, install: str) -> tuple[str, ...]:
        """`node script` for a command that is a link to a script; the command itself otherwise."""
        command = self.program(name, install=install)
        script = Path(command).resolve()
        if script.suffix not in SCRIPTS:
            return (command,)
        return (self.program("node", install="Node.js 20 or later"), str(script))

    def native(self, name: str, *, pattern: str, install: str) -> str:
        """The binary that a launcher of an installed package would start; the command itself when there is none."""
        command = self.program(name, install=install)
        target = Path(command).resolve()
        if target.suffix not in SCRIPTS:
            return command
        for folder in _module_folders(target):
            for found in sorted(folder.glob(pattern)):
                if found.is_file() and os.access(found, os.X_OK):
                    return str(found)
        return command


def _module_folders(script: Path) -> list[Path]:
    """The `node_modules` folders a script of a package would search, nearest first."""
    above = list(script.parents)[:UP]
    return [folder / "node_modules" for folder in above if (folder / "node_modules").is_dir()]
