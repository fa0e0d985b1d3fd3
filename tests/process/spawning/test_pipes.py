"""The ends of a child's pipes, on the loops that a gateway may run on."""

import asyncio
import io
import os
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager

import pytest
import uvloop

from ostler.process.pipes import Inflow, Outflow, Pipes
from tests.support.refusing_loops import KINDS, Refused, refusing
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


@contextmanager
def spawned(late: list[int]) -> Iterator[Pipes]:
    """Pipes as a spawn leaves them."""
    (theirs, stdin), (stdout, there), (stderr, too) = os.pipe(), os.pipe(), os.pipe()
    ends = (End(stdin, "wb", late), End(stdout, "rb", late), End(stderr, "rb", late))
    pipes = Pipes(
        Inflow(lambda _data: None, lambda: None),
        Inflow(lambda _data: None, lambda: None),
        Outflow(lambda _ok: None),
        ends,  # type: ignore[arg-type] # files, unbuffered
    )
    try:
        yield pipes
    finally:
        pipes.close()
        for descriptor in (theirs, there, too):
            os.close(descriptor)


async def come_and_go(times: int, late: list[int]) -> None:
    """Connected and closed."""
    for _ in range(times):
        with spawned(late) as pipes:
            await pipes.connect()
        await asyncio.sleep(0)


async def come_to_be_refused(times: int, late: list[int]) -> None:
    """The loop takes none, or only some."""
    for _ in range(times):
        with spawned(late) as pipes, pytest.raises(Refused):
            await pipes.connect()
        await asyncio.sleep(0)


async def leave_in_the_midst(times: int, late: list[int]) -> None:
    """Cancelled when the loop has the first one and nobody was told."""
    task = asyncio.current_task()
    assert task is not None
    for _ in range(times):
        with spawned(late) as pipes:
            asyncio.get_running_loop().call_soon(task.cancel)
            with pytest.raises(asyncio.CancelledError):
                await pipes.connect()
        task.uncancel()
        await asyncio.sleep(0)


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def test_w33a_each_end_of_a_pipe_is_closed_once_and_none_is_left(run: Run) -> None:
    late: list[int] = []
    run(come_and_go(1, late))  # libuv keeps a pipe of its own from its first loop on
    before = len(open_files())
    run(come_and_go(20, late))
    assert late == []
    assert len(open_files()) <= before


@pytest.mark.parametrize("taken", [0, 1, 2])
@pytest.mark.parametrize("kind", KINDS, ids=["asyncio", "uvloop"])
def test_w33a_what_a_loop_refuses_is_closed_once_and_nothing_is_left(
    kind: type[asyncio.AbstractEventLoop], taken: int
) -> None:
    late: list[int] = []
    with asyncio.Runner(loop_factory=kind) as warm:
        warm.run(come_and_go(1, late))
    before = len(open_files())
    for _ in range(8):
        with asyncio.Runner(loop_factory=refusing(kind, taken)) as runner:
            runner.run(come_to_be_refused(1, late))
    assert late == []
    assert len(open_files()) <= before


@pytest.mark.parametrize("run", [asyncio.run, uvloop.run], ids=["asyncio", "uvloop"])
def test_w33a_a_connecting_that_is_given_up_leaves_no_end(run: Run) -> None:
    late: list[int] = []
    run(come_and_go(1, late))
    before = len(open_files())
    run(leave_in_the_midst(20, late))
    assert late == []
    assert len(open_files()) <= before
