"""A pipe end's way to the event loop, for the rooms that start processes. The one file of the wire that does I/O.

Rules:
- A descriptor has one owner. uvloop closes the descriptor of a pipe and then the file object that it was given, which
  is the same descriptor again: if a thread has opened anything in between, that is closed under it (seen: a listing of
  `/proc` that failed with EBADF under load). So a loop that closes by itself is given a copy, in a file object that
  closes nothing.
- What a loop refuses stays with whoever had it, and no copy of it is left open.
"""

import asyncio
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO


@contextmanager
def handed(end: IO[bytes]) -> Iterator[IO[bytes]]:
    """What to give the running loop for this end. When the block is through the end is the loop's, when it raises it is
    still its owner's."""
    if isinstance(asyncio.get_running_loop(), asyncio.BaseEventLoop):
        yield end  # the loops of asyncio leave the closing to the file object, which does it once
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
    """Whether the descriptor is still that of this end: a loop that fails after it has taken a pipe has closed it, and
    the number may be anybody's by now. A pipe has an identity, and no other one gets it while the end is open."""
    try:
        return os.path.samestat(os.fstat(descriptor), os.fstat(end.fileno()))
    except OSError:
        return False
