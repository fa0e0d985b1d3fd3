"""A directory held open, so that its replacement by a link or another directory is noticed.

Rules:
- Opening may wait for a dead disk, so it is done on a thread, with a timeout (`BlockingProbe`).
- The kernel is asked for the name of the open directory. That reads nothing from its disk, so `is_in_place` may be
  called on the loop.
- A directory that was removed and made again under its name is opened again. One whose name leads elsewhere now is
  refused with `MovedElsewhere`.
"""

import errno
import os
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from ostler.process.probe import PATIENCE, BlockingProbe, ProbeFailed
from ostler.process.start_refusals import OPENED

MOVED: Final = "its name leads to another directory now: a link was put in its place, or a directory above it was moved"


class MovedElsewhere(OSError):
    """The path does not lead, or no longer leads, to the directory of exactly that name."""

    def __init__(self, path: str) -> None:
        super().__init__(errno.ELOOP, MOVED, path)


class Descriptor:
    """A file descriptor that is closed with its last reference, so an open that every caller has given up leaks
    none.
    """

    __slots__ = ("number",)

    def __init__(self, path: str) -> None:
        self.number = -1
        self.number = os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)

    @property
    def link(self) -> str:
        """A path that leads to the open directory, even if its name leads elsewhere now."""
        return f"{OPENED}{self.number}"

    def close(self) -> None:
        """Close the descriptor. Idempotent."""
        number, self.number = self.number, -1
        if number >= 0:
            os.close(number)

    def __del__(self) -> None:
        self.close()


class Folder:
    """An open directory.

    All folders share `probe`, so that dead disks occupy a bounded number of threads. `exact`: the path must be the
    directory's canonical name, without links. `with` closes it without waiting for its last reference.
    """

    def __init__(self, path: Path | str, probe: BlockingProbe[Descriptor], *, exact: bool = True) -> None:
        self.path = str(path)
        self._exact = exact
        self._probe = probe
        self._held: Descriptor | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Close the directory; `confirm` opens it again. Idempotent."""
        held, self._held = self._held, None
        if held is not None:
            held.close()

    @property
    def descriptor(self) -> Descriptor:
        """The open directory. Raises before `confirm`."""
        if self._held is None:
            raise RuntimeError(f"{self.path} was not opened")
        return self._held

    def is_in_place(self) -> bool:
        """Whether it was opened and its name still leads to it."""
        return self._held is not None and (not self._exact or named(self._held) == self.path)

    async def confirm(self, patience: float = PATIENCE) -> None:
        """Open it, or check that it is still in its place. Raises `OSError`; `TimeoutError` for a dead disk."""
        if self.is_in_place():
            return
        try:
            # The probe's name includes this folder, because a descriptor has one owner that may close it. Concurrent
            # calls share the result.
            name, work = (self.path, id(self)), partial(opened, self.path, exact=self._exact)
            fresh = await self._probe.find(name, work, patience, place=self.path)
        except ProbeFailed as error:
            raise TimeoutError(errno.ETIMEDOUT, error.why, self.path) from error
        if fresh is not self._held:
            self.close()
            self._held = fresh


def opened(path: str, *, exact: bool) -> Descriptor:
    """Open a directory. Raises `MovedElsewhere` if `exact` and the name leads to another one."""
    fresh = Descriptor(path)
    if exact and named(fresh) != path:
        fresh.close()
        raise MovedElsewhere(path)
    return fresh


def named(held: Descriptor) -> str:
    """The name of the open directory, as the kernel knows it."""
    return os.readlink(held.link)  # noqa: PTH115 - compared as text: a Path would normalise the differences away
