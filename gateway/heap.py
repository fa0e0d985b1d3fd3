"""How the C library keeps memory that was freed.

Rules, all measured:
- Large blocks go back to the system. glibc takes them from there until it has seen one freed: from then on whatever is
  smaller than that one comes from the heap, up to 32 MiB, and stays there in pieces. Answers, lists of pieces and lines
  of agents are such blocks. After four rounds of five streams of 40,000 deltas that nobody read: 111 MB, 96 with this.
- All threads share one heap. glibc gives each its own, and what one thread frees no other can use; there is nothing to
  win, since threads of Python rarely allocate at the same time. After five minutes of fifty turns a second: 30.0 MB of
  heaps with 9.5 free in them, and growing; 24.1 with 3.6 free, and steady, with this.
- What is free between blocks in use goes back once a minute. glibc gives back the end of the heap only, so a gateway
  kept the most it ever had, and that grew with chance: by 1.4 MB in seven minutes of 200 sessions. A trim holds the one
  heap's lock for 0.1 to 0.4 ms at 39 MB, 18 ms at 300 MB of which half is holes; the loop would wait for that in any
  thread, so it is done on the loop.
- Before that, what refers to itself in a circle is collected, while no turn runs. Python looks at its oldest objects
  only when a quarter as many have been added, which a gateway at rest may never reach: it kept 20 MB of connections
  that a crowd had left behind until the next crowd came. One look takes 50 ms after such a crowd.
"""

import ctypes
import gc
import logging
from collections.abc import Callable
from functools import partial

from ostler.metrics.loops import Loops

log = logging.getLogger(__name__)
MMAP_THRESHOLD, ARENA_MAX = -3, -8
"""`M_MMAP_THRESHOLD` and `M_ARENA_MAX` of <malloc.h>; naming the first also ends its growth."""
LARGE = 128 * 1024
EVERY = 60.0


def keep_little() -> None:
    """From here on. Where the C library knows nothing of it (musl, macOS), nothing happens."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except AttributeError:
        return
    mallopt(MMAP_THRESHOLD, LARGE)
    mallopt(ARENA_MAX, 1)


def give_back() -> None:
    """What is free, wherever it lies."""
    try:
        trim = ctypes.CDLL(None).malloc_trim
    except AttributeError:
        return
    trim(0)


async def give_back_now_and_then(
    every: float = EVERY, *, running: Callable[[], int] = lambda: 0, loops: Loops | None = None
) -> None:
    """Until cancelled. `running`: how many turns run."""
    loop = (loops or Loops()).add("the return of free memory to the system")
    await loop.repeat(lambda: every, partial(give_back_once, running))


async def give_back_once(running: Callable[[], int] = lambda: 0) -> None:
    """On the loop: see the rules."""
    if not running():
        gc.collect()
    give_back()
    log.debug("free memory was given back to the system")
