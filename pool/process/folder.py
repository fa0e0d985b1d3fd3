"""A directory held open, so that it is noticed when a link or another directory takes its place.

Rules:
- Opening may wait for a dead disk, so it is done on a thread and waited for with patience (`looks`).
- The kernel is asked for the name of the open directory. That reads nothing from its disk, so `is_in_place` may be
  called on the loop.
- A directory that was removed and made again under its name is opened anew. One whose name leads elsewhere now is
  refused with `MovedElsewhere`.
"""

import errno
import os
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from ostler.pool.looks import PATIENCE, Looks, NoLook
from ostler.pool.process.refusals import OPENED

MOVED: Final = "its name leads to another directory now: a link was put in its place, or a directory above it was moved"


class MovedElsewhere(OSError):
    """The path does not lead to the directory of that very name (any more)."""

    def __init__(self, path: str) -> None:
        super().__init__(errno.ELOOP, MOVED, path)


class Descriptor:
    """A file descriptor that is closed with its last reference: an open that nobody waits for any more leaks none."""

    __slots__ = ("number",)

    def __init__(self, path: str) -> None:
        self.number = -1
        self.number = os.open(path, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)

    @property
    def link(self) -> str:
        """A path that leads to what is open, whatever its name leads to now."""
        return f"{OPENED}{self.number}"

    def close(self) -> None:
        """Idempotent."""
        number, self.number = self.number, -1
        if number >= 0:
            os.close(number)

    def __del__(self) -> None:
        self.close()


class Folder:
    """An open directory. `looks` are shared by all folders, so that dead disks take only so many threads. `exact`: its
    name must be its one name, without links. `with` closes it without waiting for its last reference."""

    def __init__(self, path: Path | str, looks: Looks[Descriptor], *, exact: bool = True) -> None:
        self.path = str(path)
        self._exact = exact
        self._looks = looks
        self._held: Descriptor | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        """Idempotent. `confirm` opens it again."""
        held, self._held = self._held, None
        if held is not None:
            held.close()

    @property
    def descriptor(self) -> Descriptor:
        """What is open. Only after `confirm`."""
        if self._held is None:
            raise RuntimeError(f"{self.path} was not opened")
        return self._held

    def is_in_place(self) -> bool:
        """Whether it was opened and its name still leads to it."""
        return self._held is not None and (not self._exact or named(self._held) == self.path)

    async def confirm(self, patience: float = PATIENCE) -> None:
        """Open it, or make sure that it is still in its place. Raises `OSError`; `TimeoutError` for a dead disk."""
        if self.is_in_place():
            return
        try:
            # Named by the folder: a descriptor has one owner, who may close it. All who ask at once get the same one.
            name, work = (self.path, id(self)), partial(opened, self.path, exact=self._exact)
            fresh = await self._looks.find(name, work, patience, place=self.path)
        except NoLook as error:
            raise TimeoutError(errno.ETIMEDOUT, error.why, self.path) from error
        if fresh is not self._held:
            self.close()
            self._held = fresh


def opened(path: str, *, exact: bool) -> Descriptor:
    """Open a directory. Raises `MovedElsewhere` where `exact` and the name leads to another one."""
    fresh = Descriptor(path)
    if exact and named(fresh) != path:
        fresh.close()
        raise MovedElsewhere(path)
    return fresh


def named(held: Descriptor) -> str:
    """The name of what is open, as the kernel knows it."""
    return os.readlink(held.link)  # noqa: PTH115 - compared as text: a Path would drop what makes them differ
