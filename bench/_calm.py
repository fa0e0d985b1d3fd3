"""Waiting until the machine has done with what ran before, so that the figures are of this run and not of that one.

Rules: bounded, and told on stderr. What did not calm down is measured all the same, and the table says so.
"""

import os
import sys
import time
from collections.abc import Callable

PATIENCE = 90.0
LOOK_EVERY = 1.0


def quiet(cores: int) -> float:
    """Up to this load in one minute nothing worth a word ran beside us."""
    return cores / 2


def last_minute() -> float:
    """The load as the kernel counts it."""
    return os.getloadavg()[0]


def wait_for_calm(
    cores: int,
    load: Callable[[], float] = last_minute,
    *,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
    say: Callable[[str], object] = sys.stderr.write,
) -> None:
    """Until the load is quiet, or patience is over."""
    if (found := load()) <= quiet(cores):
        return
    say(f"load {found:.1f}: waiting up to {PATIENCE:.0f} s for it to fall to {quiet(cores):g}\n")
    began = clock()
    while load() > quiet(cores):
        if clock() - began >= PATIENCE:
            say(f"load {load():.1f} after {PATIENCE:.0f} s: measured all the same\n")
            return
        sleep(LOOK_EVERY)
    say(f"calm after {clock() - began:.0f} s\n")
