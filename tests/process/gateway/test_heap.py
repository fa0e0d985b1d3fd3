"""Where the C library puts what a gateway allocates, in a fresh process: its choice cannot be taken back."""

import subprocess
import sys

import pytest

ASK = """
import ctypes, sys, threading
from ostler.gateway.heap import keep_little
if sys.argv[1] == "kept":
    keep_little()
libc = ctypes.CDLL(None)
libc.malloc.restype, libc.malloc.argtypes, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_size_t], [ctypes.c_void_p]
found = []
def look(size):
    block = libc.malloc(size)
    (heap,) = [line.split()[0] for line in open("/proc/self/maps") if "[heap]" in line]
    low, high = (int(end, 16) for end in heap.split("-"))
    found.append(low <= block < high)
    libc.free(block)
thread = threading.Thread(target=look, args=(50_000,))
thread.start()
thread.join()
look(4 << 20)
look(2 << 20)
print(found)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc alone is told")
@pytest.mark.parametrize(("told", "in_heap"), [("kept", [True, False, False]), ("left", [False, False, True])])
def test_threads_share_one_heap_and_large_blocks_are_no_part_of_it(told: str, in_heap: list[bool]) -> None:
    seen = subprocess.run([sys.executable, "-c", ASK, told], capture_output=True, text=True, check=True)
    assert seen.stdout.strip() == str(in_heap)
