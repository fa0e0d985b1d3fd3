"""Hands a pipe end to the event loop, for the rooms that start processes.

Rules:
- A descriptor has one owner. uvloop closes the descriptor of a pipe and then the file object that it was given, which
  is the same descriptor again: if a thread has opened anything in between, that is closed instead (seen: a listing of
  `/proc` that failed with EBADF under load). So a loop that closes by itself is given a copy, in a file object that
  closes nothing.
- If the loop refuses an end, it stays with its owner, and no copy of it is left open.
"""

import asyncio
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO


@contextmanager
def handed(end: IO[bytes]) -> Iterator[IO[bytes]]:
    """Yields what to give the running loop for this end. After the block the loop owns the end; if the block raises,
    its previous owner still does.
    """
    if isinstance(asyncio.get_running_loop(), asyncio.BaseEventLoop):
        yield end  # asyncio's own loops leave the closing to the file object, which closes once
        return
    copy = os.dup(end.fileno())
    try:
        yield os.fdopen(copy, end.mode, buffering=0, closefd=False)
    except BaseException:
        if is_copy(copy, end):
            os.close(copy)
        raise
    end.close()


def is_copy(descriptor: int, end: IO[bytes]) -> bool:
    """Whether the descriptor is still a copy of this end. A loop that fails after it has taken a pipe has closed it,
    and another file may have the number by now. A pipe has an identity, and no other pipe gets it while the end is
    open.
    """
    try:
        return os.path.samestat(os.fstat(descriptor), os.fstat(end.fileno()))
    except OSError:
        return False
