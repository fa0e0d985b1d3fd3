"""Notices the end of a process.

Rules: the process is identified by pid and start time; one that is gone, or whose pid belongs to another process by
now, counts as ended. Where the system cannot watch it (no pidfd, no free descriptor), nothing is watched, and the
caller needs a deadline.
"""

import asyncio
import os
import sys
from collections.abc import Callable
from contextvars import Context

from ostler.bridge import peers
from ostler.bridge.binding import PeerIdentity


class ProcessEnd:
    """Calls `ended` once when the process has ended, also if it already has. `close` ends the watch."""

    __slots__ = ("_descriptor", "_ended", "_loop")

    def __init__(self, process: PeerIdentity, ended: Callable[[], None]) -> None:
        self._loop = asyncio.get_running_loop()
        self._ended: Callable[[], None] | None = ended
        self._descriptor = _open(process.pid)
        # Compared while the descriptor is open: from now on it refers to the same process.
        if peers.ancestry(process.pid)[:1] != (process,):
            self._loop.call_soon(self._tell, context=Context())
        elif self._descriptor is not None:
            self._loop.add_reader(self._descriptor, self._tell)

    def close(self) -> None:
        """End the watch without calling `ended`. Idempotent."""
        self._ended = None
        if self._descriptor is not None:
            self._loop.remove_reader(self._descriptor)
            os.close(self._descriptor)
            self._descriptor = None

    def _tell(self) -> None:
        ended = self._ended
        self.close()
        if ended is not None:
            ended()


def _open(pid: int) -> int | None:
    if sys.platform != "linux":
        return None
    try:
        return os.pidfd_open(pid)
    except OSError:
        return None  # it is gone, or the system has no pidfd or no free descriptor
