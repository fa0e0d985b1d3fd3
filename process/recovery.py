"""Ends what dead gateways left, before this gateway starts agents. Blocking: for a thread.

Rules: the reaper of a stale run may still be at work, and it knows more than the ledger: it saw which processes existed
when its gateway died. Recovery works beside it, because it gives less grace, and then waits for it, so that after a
start nothing is left that either of them could find.
"""

import logging
import os
import select
import time
from pathlib import Path

from ostler.process.ledger import Run, StaleRun, find_stale_runs, prepare
from ostler.process.reaper.proc import Stat
from ostler.process.reaper.signals import ProcessTree

log = logging.getLogger(__name__)

GRACE = 1.0
BOUND = 5.0
LINGER = 0.3
REAPER_WITHIN = 5.0


def recover_stale_runs(runtime_dir: Path, here: Run) -> int:
    """End what dead gateways left; what cannot be ended stays recorded for the next start. Returns how many processes
    had to be signalled.
    """
    prepare(runtime_dir)
    signalled = 0
    for stale_run in find_stale_runs(runtime_dir, here, time.time()):
        run = stale_run.run
        tree = ProcessTree(
            run.mark, stale_run.tracked, vouched=False, pipe_inodes=stale_run.pipe_inodes, since=run.owner.start
        )
        survivors = _end_survivors(stale_run, tree)
        signalled += len(tree.signalled)
        if survivors:
            log.error("%s left processes that cannot be ended: %s", stale_run.run.name, [s.pid for s in survivors])
        else:
            stale_run.clear()
    return signalled


def _end_survivors(stale_run: StaleRun, tree: ProcessTree) -> list[Stat]:
    if not stale_run.tracked and not stale_run.pending:
        return []
    survivors = tree.end(grace=GRACE, bound=BOUND, linger=LINGER if stale_run.pending else 0.0)
    _await_reapers(stale_run.run, time.monotonic() + REAPER_WITHIN)
    return survivors


def _await_reapers(run: Run, until: float) -> None:
    for pid in (int(name) for name in os.listdir("/proc") if name.isdigit()):  # noqa: PTH208 (no pathlib: size)
        if not _reaps(pid, run):
            continue
        try:
            pin = os.pidfd_open(pid)
        except ProcessLookupError:
            continue
        try:
            # Checked again now that the pid is pinned: it may have been reused meanwhile.
            if _reaps(pid, run) and not _ends_before(pin, until):
                log.warning("reaper pid %d of %s does not come to its end; going on without it", pid, run.name)
        finally:
            os.close(pin)


def _ends_before(pin: int, until: float) -> bool:
    poll = select.poll()
    poll.register(pin, select.POLLIN)
    return bool(poll.poll(max(0.0, until - time.monotonic()) * 1000))


def _reaps(pid: int, run: Run) -> bool:
    """Whether this process is the run's reaper: its command line ends in the run's arguments. A zombie's is empty."""
    try:
        arguments = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")[:-1]
    except (FileNotFoundError, ProcessLookupError, PermissionError):
        return False
    return arguments[-3:] == [word.encode() for word in run.reaper_arguments]
