"""The gateway's end of the reaper process: starts it, tells it every tracked process, replaces it when it dies."""

import asyncio
import fcntl
import logging
import os
import signal
from contextlib import suppress
from pathlib import Path

from ostler.process.ledger import Run
from ostler.process.reaper import tracked
from ostler.process.reaper.pipe_inodes import PipeInodes
from ostler.process.reaper.proc import ProcessIdentity
from ostler.process.spawn import Child, spawn_watcher

log = logging.getLogger(__name__)

# Only this package's folder is on its path: neither site-packages nor the rest of ostler is loaded. It exits without
# tidying up its interpreter, which would take 2 of 16 ms and delay a caller that waits for its end.
_BOOT = "import os, sys; sys.path.append(sys.argv[1]); from reaper.watch import main; os._exit(main(sys.argv[2:]))"
_PIPE_SIZE = 1_048_576  # room for some ten thousand starts; a reaper that is further behind is replaced
_FIRST_DELAY = 0.05
_LAST_DELAY = 10.0
_LEAVE_WITHIN = 6.0


class ReaperClient:
    """Starts the reaper process and writes to its pipe. Written lines are in the kernel's buffer: they reach the reaper
    even if the gateway dies right after the write.
    """

    def __init__(self, run: Run, python: str) -> None:
        self._argv = [
            *(python, "-I", "-S", "-E", "-B", "-c", _BOOT, str(Path(__file__).parent)),
            *run.reaper_arguments,
        ]
        self._tracked_lines: dict[int, str] = {}
        self._child: Child | None = None
        self._pipe = -1
        self._delay = _FIRST_DELAY
        self._retry: asyncio.TimerHandle | None = None
        self._closing = False
        self._left = asyncio.Event()

    @property
    def pid(self) -> int | None:
        return self._child.pid if self._child else None

    def open(self) -> None:
        """Start the reaper. Every known line is in its pipe before it exists. Raises `OSError`."""
        self._retry = None
        theirs, ours = os.pipe2(os.O_CLOEXEC)
        try:
            with suppress(PermissionError):  # over the user's limit of pipe pages: the usual 64 KiB must do
                fcntl.fcntl(ours, fcntl.F_SETPIPE_SZ, _PIPE_SIZE)
            os.set_blocking(ours, False)
            os.write(ours, "".join(self._tracked_lines.values()).encode())
            child = spawn_watcher(self._argv, theirs)
        except OSError:
            os.close(ours)
            raise
        finally:
            os.close(theirs)
        self._pipe, self._child = ours, child
        asyncio.get_running_loop().add_reader(child.pidfd, self._on_exit, child)

    def expect(self, number: int, pipes: PipeInodes) -> None:
        self._tracked_lines[number] = tracked.expect(number, pipes)
        self._tell(self._tracked_lines[number])

    def track(self, number: int, identity: ProcessIdentity) -> None:
        line = tracked.track_line(number, identity)
        self._tracked_lines[number] += line
        self._tell(line)

    def forget(self, number: int) -> None:
        if self._tracked_lines.pop(number, None) is not None:
            self._tell(tracked.gone(number))

    async def aclose(self) -> None:
        """Close the pipe: the reaper ends what may be left of the run, and exits."""
        self._closing = True
        if self._retry is not None:
            self._retry.cancel()
        if self._child is None:
            return
        self._drop_pipe()
        try:
            await asyncio.wait_for(self._left.wait(), _LEAVE_WITHIN)
        except TimeoutError:
            log.warning("reaper pid %d did not leave within %.0f s and was killed", self._child.pid, _LEAVE_WITHIN)
            self._child.signal_group(signal.SIGKILL)
            await self._left.wait()

    def _tell(self, lines: str) -> None:
        if self._child is None or self._pipe < 0:
            return  # there is no reaper to tell, or it was dismissed
        data = lines.encode()
        try:
            if os.write(self._pipe, data) == len(data):
                return
        except BrokenPipeError:
            return  # it is dead; its replacement is told everything
        except BlockingIOError:
            pass
        log.warning("reaper pid %d does not read; replacing it", self._child.pid)
        self._child.signal_group(signal.SIGKILL)

    def _on_exit(self, child: Child) -> None:
        loop = asyncio.get_running_loop()
        loop.remove_reader(child.pidfd)
        self._child, status = None, None
        try:
            status = child.status()
            child.reap()
            self._drop_pipe()
        finally:
            # Even if the cleanup above fails, start another: without a reaper, agents outlive a gateway that is killed.
            if self._closing:
                self._left.set()
            else:
                log.warning("reaper pid %d ended with status %s", child.pid, status)
                self._try_later()

    def _reopen(self) -> None:
        try:
            self.open()
        except Exception as failed:  # noqa: BLE001 - logged; after any error it is tried again
            log.warning("cannot start a reaper (%s)", failed)
            self._try_later()

    def _try_later(self) -> None:
        log.warning("starting another reaper in %.2f s", self._delay)
        self._retry = asyncio.get_running_loop().call_later(self._delay, self._reopen)
        self._delay = min(self._delay * 2, _LAST_DELAY)

    def _drop_pipe(self) -> None:
        if self._pipe >= 0:
            os.close(self._pipe)
            self._pipe = -1
