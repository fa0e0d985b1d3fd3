"""The reaper process: waits until the gateway has ended, ends all its agents, and exits.

Rules:
- It watches the gateway in two ways, because either can fail alone: the pipe on stdin (a fork of the gateway may hold
  the other end open after its death) and a pidfd (there is none if the gateway died before the reaper opened it).
- It has its own session and ignores terminal signals: only the gateway's end ends it.
"""

import os
import select
import signal

from .proc import ProcessIdentity, is_alive
from .signals import ProcessTree
from .tracked import TrackedProcesses

# All gone within 5 s of the gateway's end: two for the agents to save their work, the rest for SIGKILL.
GRACE = 2.0
BOUND = 2.5
LINGER = 1.0
READ_EVERY_MS = 1000


def wait_for_end(gateway: ProcessIdentity, tracked: TrackedProcesses) -> None:
    poll = select.poll()
    # Watch only for the end of the pipe, not for each line: woken by each start, the reaper would compete with the new
    # child for a core.
    poll.register(0, 0)
    try:
        pin = os.pidfd_open(gateway.pid)
    except ProcessLookupError:
        return
    poll.register(pin, select.POLLIN)
    while is_alive(gateway):
        poll.poll(READ_EVERY_MS)
        if not drain(tracked):
            return


def drain(tracked: TrackedProcesses) -> bool:
    """Take what is in the pipe; False at its end."""
    try:
        while data := os.read(0, 65_536):
            tracked.feed(data)
    except BlockingIOError:
        return True
    return False


def main(arguments: list[str]) -> int:
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    mark, pid, start = arguments
    os.set_blocking(0, False)
    tracked = TrackedProcesses()
    wait_for_end(ProcessIdentity(int(pid), int(start)), tracked)
    drain(tracked)
    tree = ProcessTree(mark, tracked.identities, vouched=True, pipe_inodes=tracked.pipe_inodes, since=int(start))
    survivors = tree.end(grace=GRACE, bound=BOUND, linger=LINGER if tracked.any_pending else 0.0)
    return 1 if survivors else 0
