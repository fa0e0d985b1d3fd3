"""The ends of a child's pipes, on the loops that a gateway may run on."""

import asyncio
import io
import os
from collections.abc import Callable, Coroutine

import pytest
import uvloop

from ostler.pool.process.pipes import Inflow, Outflow, Pipes
from tests.support.witness import open_files

Run = Callable[[Coroutine[None, None, None]], None]


class End(io.FileIO):
    """One that notes when its descriptor was closed by somebody else, and is closed again now: by then the number may
    be that of whatever a thread has just opened."""

    def __init__(self, descriptor: int, mode: str, late: list[int]) -> None:
        super().__init__(descriptor, mode)
        self._late = late

    def close(self) -> None:
        if not self.closed:
            try:
                os.fstat(self.fileno())
            except OSError:
                self._late.append(self.fileno())
        super().close()


async def come_and_go(times: int, late: list[int]) -> None:
    """Pipes as a spawn leaves them, connected and closed."""
    for _ in range(times):
        (theirs, stdin), (stdout, there), (stderr, too) = os.pipe(), os.pipe(), os.pipe()
        ends = (End(stdin, "wb", late), End(stdout, "rb", late), End(stderr, "rb", late))
        pipes = Pipes(
            Inflow(lambda _data: None, lambda: None),
            Inflow(lambda _data: None, lambda: None),
            Outflow(lambda _ok: None),
            ends,  # type: ignore[arg-type] # files, unbuffered
        )
        await pipes.connect()
        pipes.close()
        for descriptor in (theirs, there, too):
            os.close(descriptor)
        await asyncio.sleep(0)


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def test_w33a_each_end_of_a_pipe_is_closed_once_and_none_is_left(run: Run) -> None:
    late: list[int] = []
    run(come_and_go(1, late))  # libuv keeps a pipe of its own from its first loop on
    before = len(open_files())
    run(come_and_go(20, late))
    assert late == []
    assert len(open_files()) <= before
