"""A long-lived loop outlives what its rounds raise; what it does not outlive, and what hangs, is said from outside."""

import asyncio
import logging
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

import pytest

from ostler.metrics.loops import SEVERAL, Loop, Loops


@pytest.fixture
def now() -> list[float]:
    return [0.0]


@pytest.fixture
def loops(now: list[float]) -> Loops:
    return Loops(lambda: now[0])


async def run_for_ever(loop: Loop, work: Callable[[], None], made: asyncio.Queue[int]) -> None:
    with loop.running():
        for number in range(1_000_000):
            with loop.round():
                work()
            made.put_nowait(number)
            await asyncio.sleep(0)


@asynccontextmanager
async def at_work(loop: Loop, work: Callable[[], None]) -> AsyncIterator[asyncio.Queue[int]]:
    made: asyncio.Queue[int] = asyncio.Queue()
    task = asyncio.ensure_future(run_for_ever(loop, work, made))
    try:
        yield made
    finally:
        task.cancel()
        await asyncio.wait([task])


@pytest.mark.parametrize("error", [OSError("gone"), KeyError("x"), asyncio.CancelledError()])
async def test_n17_a_round_that_fails_is_told_and_the_loop_goes_on(
    loops: Loops, error: BaseException, caplog: pytest.LogCaptureFixture
) -> None:
    errors = [error]

    def work() -> None:
        if errors:
            raise errors.pop()

    loop = loops.add("the sweep")
    async with at_work(loop, work) as made:
        assert [await made.get() for _ in range(5)] == [0, 1, 2, 3, 4]
        assert loops.broken() == []
    told = [record.getMessage() for record in caplog.records if record.levelno == logging.ERROR]
    assert len(told) == 1
    assert "the sweep" in told[0]
    assert type(error).__name__ in told[0]


async def test_n17_a_failure_that_stays_is_logged_once_and_no_longer_for_each_round(
    loops: Loops, caplog: pytest.LogCaptureFixture
) -> None:
    def work() -> None:
        raise OSError("still")

    async with at_work(loops.add("the sweep"), work) as made:
        for _ in range(250):
            await made.get()
    assert len(caplog.records) == 3, "the first, and each hundredth"


@pytest.mark.parametrize("vital", [True, False])
async def test_n17_several_failures_in_a_row_are_told_of_where_nothing_can_be_served_without_the_loop(
    loops: Loops, vital: bool
) -> None:
    broken = True

    def work() -> None:
        if broken:
            raise OSError("still")

    async with at_work(loops.add("the writer", vital=vital), work) as made:
        for _ in range(SEVERAL):
            await made.get()
        assert loops.broken() == (["the writer fails again and again; see the log"] if vital else [])
        broken = False
        for _ in range(2):
            await made.get()
        assert loops.broken() == []


async def test_n17_a_loop_that_has_ended_is_told_of_and_one_that_was_ended_is_not(loops: Loops) -> None:
    async def die(loop: Loop) -> None:
        with loop.running():
            raise OSError("outside of every round")

    async with at_work(loops.add("one that is ended"), lambda: None) as made:
        await made.get()
        assert loops.names() == ["one that is ended"]
    assert loops.names() == []
    with suppress(OSError):
        await die(loops.add("the sweep"))
    assert loops.broken() == ["the sweep has ended; see the log, then restart the gateway"]


async def test_n17_a_loop_that_hangs_is_told_of_until_it_comes_back(loops: Loops, now: list[float]) -> None:
    loop = loops.add("the sweep", patience=60.0)
    with loop.running():
        now[0] = 1000.0
        assert loops.broken() == [], "between two rounds it may wait for as long as it likes"
        with loop.round():
            now[0] += 60.0
            assert loops.broken() == []
            now[0] += 1.0
            assert loops.broken() == ["the sweep has not come back for 61 s; is a disk dead? see the log"]
        assert loops.broken() == []


async def test_n17_a_cancellation_of_its_owner_ends_a_loop_in_the_middle_of_a_round(loops: Loops) -> None:
    begun = asyncio.Event()

    async def hang() -> None:
        loop = loops.add("the sweep")
        with loop.running():
            while True:
                with loop.round():
                    begun.set()
                    await asyncio.Event().wait()

    task = asyncio.ensure_future(hang())
    await begun.wait()
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()
    assert loops.names() == []
