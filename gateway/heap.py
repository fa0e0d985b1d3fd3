"""How the C library keeps memory that was freed.

glibc takes large blocks from the system and gives them back, until it has seen one freed: from then on whatever is
smaller than that one comes from the heap, up to 32 MiB, and stays there in pieces. Answers, lists of pieces and lines
of agents are such blocks. Measured on four rounds of five streams of 40,000 deltas that nobody read: 111 MB afterwards,
96 with this.
"""

import ctypes

MMAP_THRESHOLD = -3
"""`M_MMAP_THRESHOLD` of <malloc.h>; naming it also ends its growth."""
LARGE = 128 * 1024


def give_back_large_blocks() -> None:
    """From here on. Where the C library knows nothing of it (musl, macOS), nothing happens."""
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except AttributeError:
        return
    mallopt(MMAP_THRESHOLD, LARGE)
