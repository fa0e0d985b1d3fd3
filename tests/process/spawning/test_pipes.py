"""The ends of a child's pipes, on the loop that a gateway runs on."""

import asyncio
import os
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
import uvloop

from ostler.pool.process.pipes import Inflow, Outflow, Pipes
from tests.support.witness import open_files

ROUNDS = 400
THREADS = 4


@contextmanager
def openers() -> Iterator[list[OSError]]:
    """Threads that open and read folders all the time, and what they were told when it failed."""
    over, failed = threading.Event(), []

    def look() -> None:
        while not over.is_set():
            try:
                list(Path("/dev").iterdir())
            except OSError as error:
                failed.append(error)

    threads = [threading.Thread(target=look) for _ in range(THREADS)]
    for thread in threads:
        thread.start()
    try:
        yield failed
    finally:
        over.set()
        for thread in threads:
            thread.join()


def open_pipes() -> tuple[Pipes, list[int]]:
    """As a spawn leaves them: our ends, and those of a child."""
    (theirs, stdin), (stdout, there), (stderr, too) = os.pipe(), os.pipe(), os.pipe()
    ends = (
        os.fdopen(stdin, "wb", buffering=0),
        os.fdopen(stdout, "rb", buffering=0),
        os.fdopen(stderr, "rb", buffering=0),
    )
    nothing = Inflow(lambda _data: None, lambda: None)
    return Pipes(nothing, nothing, Outflow(lambda _ok: None), ends), [theirs, there, too]


async def come_and_go(times: int) -> None:
    for _ in range(times):
        pipes, theirs = open_pipes()
        await pipes.connect()
        pipes.close()
        await asyncio.sleep(0)
        for descriptor in theirs:
            os.close(descriptor)
        await asyncio.sleep(0)


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def test_w33a_what_a_thread_opens_is_not_closed_with_the_pipes_of_a_child(run: object) -> None:
    assert callable(run)
    run(come_and_go(1))  # libuv keeps a pipe of its own from its first loop on
    before = len(open_files())
    with openers() as failed:
        run(come_and_go(ROUNDS))
    assert failed == []
    assert len(open_files()) <= before
