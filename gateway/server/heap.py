"""Makes the C library return freed memory to the system.

Rules, all measured:
- Large blocks are returned at once. glibc maps them separately only until it has seen one freed: from then on, blocks
  smaller than that one, up to 32 MiB, come from the heap and stay there in pieces. Answers, lists of pieces and lines
  of agents are such blocks. After four rounds of five unread streams of 40,000 deltas: 111 MB, and 96 MB with this
  rule.
- All threads share one heap. glibc gives each thread its own, and no other thread can use what one has freed. Separate
  heaps gain nothing here, since Python threads rarely allocate at the same time. After five minutes of fifty turns a
  second: 30.0 MB of heaps with 9.5 MB free in them, and growing; with this rule 24.1 MB with 3.6 MB free, and steady.
- Free memory between used blocks is returned once a minute. glibc returns only the end of the heap, so a gateway kept
  the most it ever had, and that grew by chance: by 1.4 MB in seven minutes of 200 sessions. A trim holds the heap's
  lock for 0.1 to 0.4 ms at 39 MB, and for 18 ms at 300 MB of which half is holes. The loop would wait for that lock
  whichever thread trims, so the trim runs on the loop.
- Before the trim, reference cycles are collected, if no turn is running. Python scans its oldest objects only when a
  quarter as many have been added, which an idle gateway may never reach: it kept 20 MB of connections of a burst of
  clients until the next burst. One collection takes 50 ms after such a burst.
"""

import ctypes
import gc
import logging
from collections.abc import Callable
from functools import partial

from ostler.metrics.loops import Loops

log = logging.getLogger(__name__)
MMAP_THRESHOLD, ARENA_MAX = -3, -8
"""`M_MMAP_THRESHOLD` and `M_ARENA_MAX` of <malloc.h>. Setting the first also stops its automatic growth."""
LARGE = 128 * 1024
EVERY = 60.0


def keep_little() -> None:
    """Set both limits for this process. Does nothing on a C library without them (musl, macOS)."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except AttributeError:
        return
    mallopt(MMAP_THRESHOLD, LARGE)
    mallopt(ARENA_MAX, 1)


def give_back() -> None:
    """Return all free memory of the heap to the system."""
    try:
        trim = ctypes.CDLL(None).malloc_trim
    except AttributeError:
        return
    trim(0)


async def give_back_now_and_then(
    every: float = EVERY, *, running: Callable[[], int] = lambda: 0, loops: Loops | None = None
) -> None:
    """Run until cancelled. `running` returns the number of running turns."""
    loop = (loops or Loops()).add("the return of free memory to the system")
    await loop.repeat(lambda: every, partial(give_back_once, running))


async def give_back_once(running: Callable[[], int] = lambda: 0) -> None:
    """Collect and trim once, on the event loop: see the rules."""
    if not running():
        gc.collect()
    give_back()
    log.debug("free memory was given back to the system")
