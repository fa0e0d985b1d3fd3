"""The locks that a process holds on a file, as the kernel says, and who opens a file in this process.

Rules: `/proc/locks` is read for one pid and one file only. The audit hook cannot be taken away again; it is idle but
inside `watched_opens`.
"""

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any


def held(pid: int, path: Path) -> list[str]:
    """A line of `/proc/locks` for each POSIX lock."""
    found = []
    inode = path.stat().st_ino
    for line in Path("/proc/locks").read_text().splitlines():
        words = line.split()
        if words[1] == "POSIX" and words[4] == str(pid) and words[5].endswith(f":{inode}"):
            found.append(line)
    return found


def holds(path: Path, pid: int | None = None) -> bool:
    """Whether a process (None: this one) has a lock on the file."""
    return bool(held(os.getpid() if pid is None else pid, path))


@dataclass
class Opens:
    """What is opened by Python code of this process, while it is watched."""

    watched: bool = False
    paths: list[str] = field(default_factory=list)

    def hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        """An audit hook: `open` is said for `open`, `os.open` and everything made of them."""
        if self.watched and event == "open":
            self.paths.append(os.fsdecode(arguments[0]) if isinstance(arguments[0], str | bytes) else "")


@cache
def opens() -> Opens:
    """Of this process."""
    made = Opens()
    sys.addaudithook(made.hear)
    return made


@contextmanager
def watched_opens() -> Iterator[list[str]]:
    """The paths that are opened inside the block."""
    heard = opens()
    heard.paths.clear()
    heard.watched = True
    try:
        yield heard.paths
    finally:
        heard.watched = False
