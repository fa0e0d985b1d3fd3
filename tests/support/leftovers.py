"""Work that only computes, done with what the others leave of the processor.

Most tests wait for processes, a few only compute. Side by side they would share the machine until the computing is
done, and then it would idle wherever all the others happen to wait. A thread of the scheduler's idle class takes
nothing from anybody, and fills exactly those gaps. It is a thread because such a thread ends: a worker that had
lowered itself could not rise again without being root.
"""

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

Result = TypeVar("Result")


def in_leftover_time(work: Callable[[], Result]) -> Result:
    """What it returns or raises. On Linux a scheduling policy is a thread's own, whatever POSIX says."""
    with ThreadPoolExecutor(1, initializer=_give_way) as thread:
        return thread.submit(work).result()


def _give_way() -> None:
    os.sched_setscheduler(0, os.SCHED_IDLE, os.sched_param(0))
