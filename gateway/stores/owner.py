"""At most one gateway per data folder: a kernel lock that ends with its process, however the process ends.

Rules:
- The kernel's lock on an open file is the truth. The text in the file (pid, command and start time, one per line) is
  only for people: a stale file, or a pid that the system has given to another process, does no harm.
- The file is never removed: unlinking a lock file races with the next process that opens it.
- The descriptor is not inherited: an agent that outlives its gateway does not hold the lock.
"""

import fcntl
import os
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Self

from ostler.gateway.model.errors import StoreOwned
from ostler.gateway.stores.sqlite.connection import PRIVATE, PRIVATE_FOLDER

NAME = "gateway.lock"
FACTS_BYTES = 512


@dataclass(frozen=True, slots=True)
class FolderHolder:
    """What the lock file says about the process that holds the folder, or held it last."""

    pid: int | None = None
    command: str = ""
    since: str = ""

    @classmethod
    def parse(cls, text: str) -> Self:
        """Parse the text of the lock file. A missing or invalid field stays empty."""
        pid, command, since, *_ = [*(line.strip() for line in text.splitlines()), "", "", ""]
        return cls(int(pid) if pid.isascii() and pid.isdigit() else None, command, since)

    def __str__(self) -> str:
        lines = [str(self.pid), self.command, self.since]
        return "".join(f"{line}\n" for line in lines if line)


class Ownership:
    """The exclusive right to serve a data folder, until `release` or the end of the process."""

    def __init__(self, path: Path, held: int) -> None:
        self.path = path
        self._held: int | None = held

    @classmethod
    def take(cls, folder: Path, *, pid: int, command: str = "", since: str = "") -> Self:
        """Take the lock or raise `StoreOwned`, without waiting. `command` and `since` are shown to processes that are
        refused."""
        folder.mkdir(parents=True, exist_ok=True, mode=PRIVATE_FOLDER)
        path = folder / NAME
        held = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, PRIVATE)
        try:
            fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            holder = _holder_in(held)
            os.close(held)
            raise StoreOwned(path, holder.pid, holder.command, holder.since) from error
        except OSError:
            os.close(held)
            raise
        os.ftruncate(held, 0)
        os.pwrite(held, str(FolderHolder(pid, command, since)).encode(), 0)
        return cls(path, held)

    def release(self) -> None:
        """Release the lock. A second call does nothing."""
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
    """Raise `StoreOwned` if a gateway is using the folder. Creates no file."""
    if (folder / NAME).exists():
        Ownership.take(folder, pid=os.getpid()).release()


def last_holder(folder: Path) -> FolderHolder:
    """The process that holds the folder or held it last, as the lock file says; clients use it as a hint."""
    try:
        return FolderHolder.parse((folder / NAME).read_text(encoding="utf-8", errors="replace")[:FACTS_BYTES])
    except OSError:
        return FolderHolder()


def _holder_in(held: int) -> FolderHolder:
    """Read the holder's facts; they are empty if the holder has not written them yet."""
    return FolderHolder.parse(os.pread(held, FACTS_BYTES, 0).decode(errors="replace"))
