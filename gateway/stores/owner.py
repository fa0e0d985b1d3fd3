"""One gateway for one data folder: a lock that ends with its holder, however it ends.

Rules:
- The kernel's lock on an open file is the truth; the pid in the file is only for people. A stale file, a pid that was
  given to another process since, an unreadable command line: none of them matters.
- The file is never removed: whoever unlinks a lock file races with the next one who opens it.
- The descriptor is not inherited: an agent that outlives its gateway holds nothing.
"""

import fcntl
import os
from pathlib import Path
from types import TracebackType
from typing import Self

from ostler.gateway.errors import StoreOwned
from ostler.gateway.stores.sqlite.connection import PRIVATE, PRIVATE_FOLDER

NAME = "gateway.lock"
PID_BYTES = 32


class Ownership:
    """The right to be the gateway of a data folder, until `release` or the end of the process."""

    def __init__(self, path: Path, held: int) -> None:
        self.path = path
        self._held: int | None = held

    @classmethod
    def take(cls, folder: Path, *, pid: int) -> Self:
        """Or `StoreOwned`, at once."""
        folder.mkdir(parents=True, exist_ok=True, mode=PRIVATE_FOLDER)
        path = folder / NAME
        held = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, PRIVATE)
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            owner = _pid_in(held)
            os.close(held)
            raise StoreOwned(path, owner) from error
        except OSError:
            os.close(held)
            raise
        os.ftruncate(held, 0)
        os.pwrite(held, f"{pid}\n".encode(), 0)
        return cls(path, held)

    def release(self) -> None:
        """A second call does nothing."""
        if self._held is not None:
            os.close(self._held)
            self._held = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()


def check_alone(folder: Path) -> None:
    """Raise `StoreOwned` where a gateway works there now. Makes nothing."""
    if (folder / NAME).exists():
        Ownership.take(folder, pid=os.getpid()).release()


def _pid_in(held: int) -> int | None:
    """What the holder wrote, if it has come to that."""
    text = os.pread(held, PID_BYTES, 0).strip()
    return int(text) if text.isdigit() else None
