"""Where the C library puts what a gateway allocates, in a fresh process: its choice cannot be taken back."""

import gc
import subprocess
import sys
import weakref
from pathlib import Path

import pytest

from ostler.gateway.server.heap import give_back_once
from tests.support.serve_command import environment, serve_words


class Circle:
    """It refers to itself."""

    def __init__(self) -> None:
        self.me = self


ASK = """
import ctypes, sys, threading
from ostler.gateway.server.heap import keep_little
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


TRIM = """
import ctypes
from ostler.gateway.server.heap import give_back, keep_little
keep_little()
libc = ctypes.CDLL(None)
libc.malloc.restype, libc.malloc.argtypes, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_size_t], [ctypes.c_void_p]
def own():
    (line,) = [line for line in open("/proc/self/status") if line.startswith("RssAnon:")]
    return int(line.split()[1]) // 1024
blocks = [libc.malloc(60_000) for _ in range(400)]
for block in blocks:
    ctypes.memset(block, 1, 60_000)
end = libc.malloc(60_000)
for block in blocks:
    libc.free(block)
held = own()
give_back()
print(held - own())
"""


HASTY = """
import sys
from functools import partial
import ostler.gateway.server.serving as serving
from ostler.gateway.__main__ import main
serving.give_back_now_and_then = partial(serving.give_back_now_and_then, 0.05)
sys.exit(main(sys.argv[1:]))
"""


def test_a_gateway_gives_back_again_and_again(tmp_path: Path) -> None:
    line = [sys.executable, "-c", HASTY, *serve_words(tmp_path, [])]
    env = environment(tmp_path, {"OSTLER_LOG__LEVEL": "debug"})
    with subprocess.Popen(line, env=env, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as gateway:
        assert gateway.stderr is not None
        try:
            given = (number for number, said in enumerate(gateway.stderr) if "free memory was given back" in said)
            assert next(given) < next(given)
            gateway.terminate()
            gateway.stderr.read()
            assert gateway.wait(300) == 0
        finally:
            gateway.kill()


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc alone is told")
def test_what_is_free_below_what_is_in_use_goes_back() -> None:
    seen = subprocess.run([sys.executable, "-c", TRIM], capture_output=True, text=True, check=True)
    assert int(seen.stdout) > 15


async def test_what_refers_to_itself_in_a_circle_goes_back_too() -> None:
    # A gateway at rest makes no objects, and Python looks for circles only when many were made.
    gc.disable()
    try:
        circle = Circle()
        held = weakref.ref(circle)
        del circle
        await give_back_once(running=lambda: 1)
        assert held() is not None
        await give_back_once()
        assert held() is None
    finally:
        gc.enable()
