"""The pool for threads: same guarantees, no loop in sight."""

import asyncio
import gc
import os
import signal
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from concurrent.futures import CancelledError
from contextlib import asynccontextmanager, contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from ostler.pool import PoolClosed, PoolError, PoolSettings, TransportKey, TransportPool, UnknownProvider, open_pool
from ostler.pool.agent.session_events import SessionState
from ostler.pool.blocking import BlockingPool
from ostler.pool.events import Finished, StopReason, Text
from ostler.pool.owner_loop import ForeignLoopTurn, OwnerLoop
from tests.support.pools import alive, demo_settings, open_pool_harness
from tests.support.waiting import eventually, soon


@contextmanager
def threads_pool(folder: Path, *flags: str) -> Iterator[BlockingPool]:
    settings = PoolSettings(providers={"demo": demo_settings(folder / "record.jsonl", *flags)})
    environ = {"PATH": os.environ["PATH"], "HOME": str(folder)}
    with BlockingPool(partial(open_pool, settings, runtime_dir=folder / "run", environ=environ)) as pool:
        yield pool


def test_e06_eight_threads_miss_one_key_and_start_one_process(tmp_path: Path) -> None:
    key = TransportKey("demo", "demo", str(tmp_path))
    with threads_pool(tmp_path, "--boot-delay", "0.3") as pool:
        found: list[object] = []

        def claim() -> None:
            with pool.lease(key) as lease:
                found.append(lease.lease.transport)

        threads = [threading.Thread(target=claim) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(found) == 8
        assert len({id(one) for one in found}) == 1
        assert len(pool.snapshot().processes) == 1


def test_a_thread_streams_a_turn(tmp_path: Path) -> None:
    with threads_pool(tmp_path) as pool, pool.lease(TransportKey("demo", "demo", str(tmp_path))) as lease:
        events = list(lease.prompt("!stream 5"))
        assert "".join(event.text for event in events if isinstance(event, Text)) == "t0 t1 t2 t3 t4 "
        assert isinstance(events[-1], Finished)


def test_leaving_the_loop_early_cancels_the_turn(tmp_path: Path) -> None:
    with threads_pool(tmp_path) as pool, pool.lease(TransportKey("demo", "demo", str(tmp_path))) as lease:
        turn = lease.prompt("first\n!sleep 30")
        for event in turn:
            assert isinstance(event, Text)
            break
        end = turn.wait()
        assert end.reason is StopReason.CANCELLED
        assert [event.text for event in lease.prompt("again") if isinstance(event, Text)] == ["echo: again"]


def test_a_turn_whose_loop_the_collector_finds_at_home_is_left_later_and_not_in_the_midst(tmp_path: Path) -> None:
    with threads_pool(tmp_path) as pool, pool.lease(TransportKey("demo", "demo", str(tmp_path))) as lease:
        turn = lease.prompt("first\n!sleep 30")
        events = iter(turn)
        assert isinstance(next(events), Text)
        ring: list[object] = [events]
        ring.append(ring)
        del events, ring

        async def collect() -> bool:
            gc.collect()
            return lease.lease.session.state is SessionState.CANCELLING

        assert pool.run(collect()) is False
        assert turn.wait().reason is StopReason.CANCELLED


def test_a_turn_is_taken_once_by_a_thread_too(tmp_path: Path) -> None:
    with threads_pool(tmp_path) as pool, pool.lease(TransportKey("demo", "demo", str(tmp_path))) as lease:
        turn = lease.prompt("hello")
        assert isinstance(list(turn)[-1], Finished)
        with pytest.raises(RuntimeError, match="iterated once"):
            iter(turn)


async def breaks(turn: ForeignLoopTurn) -> None:
    async for event in turn:
        assert isinstance(event, Text)
        break


async def breaks_out_of_the_context(turn: ForeignLoopTurn) -> None:
    async with turn:
        kept = aiter(turn)  # not dropped before the end: leaving the context is enough
        assert isinstance(await anext(kept), Text)
    assert [type(event) async for event in kept] == [Finished]


async def raises(turn: ForeignLoopTurn) -> None:
    async def consume() -> None:
        async for _ in turn:
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await consume()


async def is_cancelled(turn: ForeignLoopTurn) -> None:
    heard = asyncio.Event()

    async def hear() -> None:
        async for _ in turn:
            heard.set()

    hearing = asyncio.create_task(hear())
    await heard.wait()
    hearing.cancel()
    with pytest.raises(asyncio.CancelledError):
        await hearing


@pytest.mark.parametrize("leave", [breaks, breaks_out_of_the_context, raises, is_cancelled])
async def test_leaving_the_loop_early_on_another_loop_cancels_the_turn(
    tmp_path: Path, leave: Callable[[ForeignLoopTurn], Awaitable[None]]
) -> None:
    async with open_pool_harness(tmp_path) as harness:
        key = harness.key()

        async def elsewhere() -> None:
            async with await harness.pool.lease(key) as lease:
                turn = await lease.prompt("first\n!sleep 30")
                assert isinstance(turn, ForeignLoopTurn)
                await leave(turn)
                end = await turn.ended()
                assert (end.reason, turn.finished) == (StopReason.CANCELLED, end)
                again = await lease.prompt("again")
                assert [event.text async for event in again if isinstance(event, Text)] == ["echo: again"]
                with pytest.raises(RuntimeError, match="iterated once"):
                    aiter(again)

        await soon(asyncio.to_thread(asyncio.run, elsewhere()), "the turns of the other loop")


async def test_wm5_a_turn_whose_caller_is_cancelled_while_it_crosses_is_cancelled_too(tmp_path: Path) -> None:
    async with open_pool_harness(tmp_path) as harness:
        key = harness.key()

        async def elsewhere() -> None:
            async with await harness.pool.lease(key) as lease:
                prompting = asyncio.create_task(lease.prompt("first\n!sleep 30"))
                await asyncio.sleep(0)
                # This loop stands still meanwhile: home has given the turn away, and nobody here has taken it.
                while (turn := lease.session.turn) is None or not turn.began:
                    os.sched_yield()
                prompting.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await prompting
                await eventually(lambda: turn.finished, "the end of the turn that nobody has")
                assert turn.finished is not None
                assert turn.finished.reason is StopReason.CANCELLED

        await soon(asyncio.to_thread(asyncio.run, elsewhere()), "the cancelled prompt of the other loop")


def test_errors_cross_as_they_are_and_a_closed_pool_says_so(tmp_path: Path) -> None:
    with threads_pool(tmp_path) as pool:
        with pytest.raises(UnknownProvider):
            pool.lease(TransportKey("nobody", "m", str(tmp_path)))
        with pool.lease(TransportKey("demo", "demo", str(tmp_path))) as lease:
            pid = lease.lease.pid
    assert not alive(pid)
    with pytest.raises(PoolClosed):
        pool.lease(TransportKey("demo", "demo", str(tmp_path)))
    pool.shutdown()


async def test_a_blocking_call_on_the_pools_own_loop_is_refused(tmp_path: Path) -> None:
    def misuse() -> None:
        with threads_pool(tmp_path) as pool:
            key = TransportKey("demo", "demo", str(tmp_path))
            pool.lease(key).release()

            async def on_the_pools_loop() -> None:
                with pytest.raises(RuntimeError, match="own loop"):
                    pool.lease(key)

            pool.run(on_the_pools_loop())

    await asyncio.to_thread(misuse)


def test_what_goes_wrong_while_the_pool_closes_is_raised_where_it_is_closed(tmp_path: Path) -> None:
    @asynccontextmanager
    async def untidy() -> AsyncIterator[TransportPool]:
        async with open_pool(runtime_dir=tmp_path / "run", environ={"HOME": str(tmp_path)}) as pool:
            yield pool
        raise OSError("the ledger would not close")

    with pytest.raises(OSError, match="would not close"), BlockingPool(untidy) as pool:
        assert pool.snapshot().processes == ()
    pool.shutdown()


def test_an_interrupt_while_the_pool_opens_leaves_neither_thread_nor_agent(tmp_path: Path) -> None:
    interrupted = threading.Event()

    def interrupt(*_: object) -> None:
        interrupted.set()
        raise KeyboardInterrupt

    @asynccontextmanager
    async def slow() -> AsyncIterator[TransportPool]:
        signal.pthread_kill(threading.main_thread().ident or 0, signal.SIGUSR1)
        assert await asyncio.to_thread(interrupted.wait, 300)
        async with open_pool(runtime_dir=tmp_path / "run", environ={"HOME": str(tmp_path)}) as pool:
            yield pool

    before, others = signal.signal(signal.SIGUSR1, interrupt), set(threading.enumerate())
    try:
        with pytest.raises(KeyboardInterrupt), BlockingPool(slow):
            raise AssertionError("it was entered")
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert [thread for thread in set(threading.enumerate()) - others if thread.name == "ostler pool"] == []


def test_work_for_a_closed_pool_is_refused_and_closed(tmp_path: Path) -> None:
    async def work() -> None:
        raise AssertionError("nobody is there to do it")

    with threads_pool(tmp_path) as pool:
        pass
    with pytest.raises(PoolClosed):
        pool.run(work())


def test_e14_threads_that_claim_during_the_shutdown_all_hear_of_it(tmp_path: Path) -> None:
    key = TransportKey("demo", "demo", str(tmp_path))
    for _ in range(5):
        heard: list[type[BaseException]] = []

        def claim(pool: BlockingPool, heard: list[type[BaseException]]) -> None:
            try:
                while True:
                    pool.lease(key).release()
            except (PoolError, CancelledError) as error:
                heard.append(type(error))

        with threads_pool(tmp_path) as pool:
            threads = [threading.Thread(target=claim, args=(pool, heard), daemon=True) for _ in range(6)]
            for thread in threads:
                thread.start()
            pool.lease(key).release()
        for thread in threads:
            thread.join(10)
        assert heard == [PoolClosed] * 6


def test_e14_whatever_a_thread_waits_for_when_the_pool_closes_it_hears_of_it(tmp_path: Path) -> None:
    heard: list[type[BaseException]] = []
    begun = threading.Event()

    async def long() -> None:
        begun.set()
        await asyncio.Event().wait()

    def wait_long(pool: BlockingPool) -> None:
        try:
            pool.run(long())
        except BaseException as error:  # noqa: BLE001 (whatever it is, is what the test asks for)
            heard.append(type(error))

    with threads_pool(tmp_path) as pool:
        thread = threading.Thread(target=wait_long, args=(pool,), daemon=True)
        thread.start()
        assert begun.wait(300)
    thread.join(10)
    assert heard == [PoolClosed]


def test_e14_work_that_is_posted_while_home_ends_is_refused_and_not_forgotten() -> None:
    """The loop as it is after its last turn: it lives, and nobody will run what is posted to it."""
    posted = threading.Event()

    class Watched(asyncio.SelectorEventLoop):
        def call_soon_threadsafe(self, *arguments: Any, **named: Any) -> asyncio.Handle:
            posted.set()
            return super().call_soon_threadsafe(*arguments, **named)

    loop = Watched()
    home = OwnerLoop()
    home.bind(loop)
    heard: list[type[BaseException]] = []

    async def work() -> None:
        """Never begins."""

    def wait() -> None:
        try:
            home.block(work())
        except BaseException as error:  # noqa: BLE001 (whatever it is, is what the test asks for)
            heard.append(type(error))

    thread = threading.Thread(target=wait, daemon=True)
    thread.start()
    assert posted.wait(300)
    home.close()
    thread.join(10)
    assert heard == [PoolClosed]
    with pytest.raises(PoolClosed):
        home.block(work())
    loop.run_until_complete(asyncio.sleep(0))
    loop.close()
