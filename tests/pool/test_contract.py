"""The pool's contract on real processes: who shares, who waits, what ends a process and what does not."""

import asyncio
import os
import signal
import threading
from pathlib import Path

import pytest

from ostler.pool import Limits, PoolClosed, TransportKey, UnknownProvider, WarmKey
from ostler.pool.core import ReserveRule
from ostler.pool.errors import (
    AgentStartFailed,
    BadDirectory,
    BreakerOpen,
    Phase,
    PoolError,
    PoolSaturated,
    TransportLost,
)
from ostler.pool.events import Finished, StopReason
from tests.support.pools import alive, open_pool_harness, say
from tests.support.processes import kill_unheard

NO_RESERVE = Limits(reserve=ReserveRule(keep_seconds=1e-6))
"""Nothing is opened ahead, so that the seats of a process are those of its turns."""


async def test_e01_the_same_key_is_the_same_transport(tmp_path: Path) -> None:
    async with open_pool_harness(tmp_path) as harness:
        first = await harness.transport()
        assert await harness.transport() is first
        assert len(harness.pids()) == 1


async def test_e02_a_key_that_differs_in_one_part_is_another_process(tmp_path: Path) -> None:
    async with open_pool_harness(tmp_path) as harness:
        first = await harness.transport()
        assert await harness.transport(harness.key("other")) is not first
        assert await harness.transport(harness.key(model="second")) is not first
        assert len(harness.pids()) == 3


async def test_e03_one_directory_by_three_names_is_one_process(tmp_path: Path) -> None:
    async with open_pool_harness(tmp_path) as harness:
        key = harness.key()
        (tmp_path / "link").symlink_to(key.cwd)
        names = [key.cwd, key.cwd + "/", str(tmp_path / "link")]
        transports = [await harness.transport(TransportKey("demo", "demo", name)) for name in names]
        assert len({id(transport) for transport in transports}) == 1


async def test_e04_a_bad_directory_starts_nothing(tmp_path: Path) -> None:
    root = tmp_path / "root"
    root.mkdir()
    (root / "out").symlink_to(tmp_path)
    async with open_pool_harness(tmp_path, roots=(str(root),)) as harness:
        for bad in [tmp_path / "missing", tmp_path, root / "out"]:
            with pytest.raises(BadDirectory):
                await harness.pool.lease(TransportKey("demo", "demo", str(bad)))
        assert harness.starts() == []


async def test_e06_many_misses_of_tasks_start_one_process(tmp_path: Path) -> None:
    async with open_pool_harness(tmp_path, "--boot-delay", "0.3") as harness:
        key = harness.key()
        transports = await asyncio.gather(*(harness.transport(key) for _ in range(8)))
        assert len({id(transport) for transport in transports}) == 1
        assert len(harness.starts()) == 1


async def test_e06_many_misses_of_foreign_loops_start_one_process(tmp_path: Path) -> None:
    async with open_pool_harness(tmp_path, "--boot-delay", "0.3") as harness:
        key = harness.key()
        found: list[object] = []

        def ask() -> None:
            found.append(asyncio.run(harness.transport(key)))

        threads = [threading.Thread(target=ask) for _ in range(4)]
        for thread in threads:
            thread.start()
        here = await asyncio.gather(*(harness.transport(key) for _ in range(4)))
        await asyncio.gather(*(asyncio.to_thread(thread.join) for thread in threads))
        assert len(found) == 4
        assert {id(one) for one in (*found, *here)} == {id(here[0])}
        assert len(harness.starts()) == 1


async def test_e06_a_foreign_loop_can_hold_a_lease_and_stream(tmp_path: Path) -> None:
    async with open_pool_harness(tmp_path) as harness:

        async def elsewhere() -> str:
            async with await harness.pool.lease(harness.key()) as lease:
                return await say(lease, "from another loop")

        assert await asyncio.to_thread(lambda: asyncio.run(elsewhere())) == "echo: from another loop"
        await harness.settled(lambda: harness.pool.snapshot().core.leases == ())


async def test_e07_a_waiter_that_goes_hurts_nobody(tmp_path: Path) -> None:
    async with open_pool_harness(tmp_path, "--boot-delay", "0.5") as harness:
        key = harness.key()
        tasks = [asyncio.create_task(harness.transport(key)) for _ in range(3)]
        hurried = asyncio.create_task(harness.transport(key, deadline=0.1))
        await asyncio.sleep(0)
        tasks[0].cancel()
        assert await tasks[1] is await tasks[2]
        with pytest.raises(PoolSaturated, match="starting"):
            await hurried
        assert tasks[0].cancelled()
        assert harness.pool.snapshot().core.census.waiting == 0


async def test_e09_a_failed_start_leaves_nothing_and_the_next_call_tries_again(tmp_path: Path) -> None:
    flags = ("--fail-first-starts", "1", "--fail-state", str(tmp_path / "starts"))
    async with open_pool_harness(tmp_path, *flags, fallback=False) as harness:
        key = harness.key()
        answers = await asyncio.gather(*(harness.transport(key) for _ in range(3)), return_exceptions=True)
        assert all(isinstance(answer, AgentStartFailed) for answer in answers), answers
        assert len({id(answer) for answer in answers}) == 3
        assert harness.pids() == set()
        transport = await harness.transport(key)
        assert alive(transport.pid)


async def test_e10_an_unknown_provider_is_named_with_the_known_ones(tmp_path: Path) -> None:
    async with open_pool_harness(tmp_path) as harness:
        with pytest.raises(UnknownProvider, match="demo") as caught:
            await harness.transport(TransportKey("nobody", "m", str(tmp_path)))
        assert isinstance(caught.value, ValueError)
        assert caught.value.name == "nobody"


async def test_e11_w13a_a_released_seat_ends_no_shared_process_and_the_next_turn_starts_none(tmp_path: Path) -> None:
    async with open_pool_harness(tmp_path, limits=NO_RESERVE) as harness:
        key = harness.key()
        leases = [await harness.pool.lease(key) for _ in range(3)]
        for lease in leases:
            assert await say(lease, "hello") == "echo: hello"
            lease.release()
            lease.release()
        await harness.settled(lambda: leases[0].transport.sessions == 0)
        async with await harness.pool.lease(key) as fourth:
            assert await say(fourth, "!recall") == ""
            assert fourth.pid == leases[0].pid
        assert len(harness.starts()) == 1


async def test_e12_with_the_pool_off_a_process_ends_with_its_session(tmp_path: Path) -> None:
    async with open_pool_harness(tmp_path, enabled=False) as harness:
        key = harness.key()
        first, second = await harness.pool.lease(key), await harness.pool.lease(key)
        pids = harness.pids()
        assert len(pids) == 2
        assert (first.pooled, second.pooled) == (False, False)
        first.release()
        second.release()
        await harness.settled(lambda: not any(alive(pid) for pid in pids))
        await harness.settled(lambda: not harness.pids())


async def test_e13_shutdown_leaves_nothing_not_even_what_ignores_it(tmp_path: Path) -> None:
    async with open_pool_harness(tmp_path, "--ignore-term", "--ignore-eof") as harness:
        lease = await harness.pool.lease(harness.key())
        children = [int((await say(lease, order)).split()[1]) for order in ("!fork", "!daemon")]
        family = [*harness.pids(), *children]
        assert all(alive(pid) for pid in family)
        await harness.pool.shutdown()
        await harness.pool.shutdown()
        assert [pid for pid in family if alive(pid)] == []
        lease.release()


async def test_e14_a_closed_pool_says_so_to_those_who_come_and_those_who_wait(tmp_path: Path) -> None:
    async with open_pool_harness(tmp_path, "--boot-delay", "20") as harness:
        waiting = asyncio.create_task(harness.transport())
        await harness.settled(lambda: bool(harness.pool.snapshot().processes))
        await harness.pool.shutdown()
        with pytest.raises(PoolClosed):
            await waiting
        with pytest.raises(PoolClosed):
            await harness.transport()
        with pytest.raises(PoolClosed):
            await harness.pool.lease(harness.key())
        assert harness.pool.snapshot().processes == ()


async def test_e16_an_idle_process_that_dies_is_replaced(tmp_path: Path) -> None:
    async with open_pool_harness(tmp_path) as harness:
        key = harness.key()
        before = await harness.transport(key)
        os.kill(before.pid, signal.SIGKILL)
        await before.wait_lost()
        after = await harness.transport(key)
        assert after is not before
        assert alive(after.pid)


async def test_e16_a_prompt_to_a_process_that_has_just_died_is_known_not_to_have_left(tmp_path: Path) -> None:
    async with open_pool_harness(tmp_path) as harness, await harness.pool.lease(harness.key()) as lease:
        kill_unheard(lease.pid)
        with pytest.raises(TransportLost) as lost:
            await lease.prompt("never heard")
        assert (lost.value.phase, lost.value.pid, lost.value.exit_code) == (Phase.IDLE, lease.pid, -signal.SIGKILL)
        assert lease.session.turn is None


async def test_e17_a_death_fails_the_running_turns_once_and_nobody_else(tmp_path: Path) -> None:
    async with open_pool_harness(tmp_path) as harness:
        key = harness.key()
        leases = [await harness.pool.lease(key) for _ in range(5)]
        turns = [await lease.prompt("!sleep 30") for lease in leases[:2]]
        (pid,) = harness.pids()
        os.kill(pid, signal.SIGKILL)
        for turn in turns:
            ends = [event async for event in turn if isinstance(event, Finished)]
            assert len(ends) == 1
            assert ends[0].reason is StopReason.FAILED
            assert str(pid) in ends[0].detail
        for lease in leases:
            await lease.wait_moved()
            assert lease.lost is not None
            lease.release()
        async with await harness.pool.lease(key) as again:
            assert await say(again, "still here") == "echo: still here"
        assert harness.pool.snapshot().core.census.leased == 0


async def test_e18_an_agent_that_never_starts_is_not_started_for_ever(tmp_path: Path) -> None:
    flags = ("--fail-first-starts", "1000", "--fail-state", str(tmp_path / "starts"))
    # The pauses between the tries are short: what is counted is the tries before the breaker ends them.
    async with open_pool_harness(tmp_path, *flags, limits=Limits(backoff_base=0.05)) as harness:
        key = harness.key()
        for _ in range(20):
            with pytest.raises(PoolError) as caught:
                await harness.pool.lease(key, deadline=3)
            assert isinstance(caught.value, AgentStartFailed | BreakerOpen | PoolSaturated), caught.value
        assert len((tmp_path / "starts").read_text()) < 20


async def test_e20_building_a_pool_starts_nothing(tmp_path: Path) -> None:
    async with open_pool_harness(tmp_path) as harness:
        await asyncio.sleep(0)
        assert harness.pool.snapshot().processes == ()


async def test_e21_the_first_claim_joins_the_running_warm_up(tmp_path: Path) -> None:
    key = TransportKey("demo", "demo", str(tmp_path))
    async with open_pool_harness(tmp_path, "--boot-delay", "1", warm=(WarmKey(key),)) as harness:
        await harness.settled(lambda: len(harness.pool.snapshot().processes) == 1)
        (starting,) = harness.pool.snapshot().processes
        assert starting.pid is None
        async with await harness.pool.lease(key) as lease:
            assert await say(lease, "hello") == "echo: hello"
        assert len(harness.starts()) == 1


async def test_e22_a_warm_up_that_fails_is_told_and_not_fatal(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    missing = TransportKey("demo", "demo", str(tmp_path / "missing"))
    async with open_pool_harness(tmp_path, warm=(WarmKey(missing),)) as harness:
        await harness.settled(
            lambda: any("missing" in one.getMessage() for one in caplog.records if one.levelname == "WARNING")
        )
        async with await harness.pool.lease(harness.key()) as lease:
            assert await say(lease, "hello") == "echo: hello"


async def test_e25_a_failed_shared_start_falls_back_to_a_process_of_its_own(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    flags = ("--fail-first-starts", "1", "--fail-state", str(tmp_path / "starts"))
    async with open_pool_harness(tmp_path, *flags) as harness:
        lease = await harness.pool.lease(harness.key())
        assert not lease.pooled
        assert lease.warmth == "fallback"
        told = [record.levelname for record in caplog.records if "session alone" in record.getMessage()]
        assert told == ["ERROR"]
        assert await say(lease, "hello") == "echo: hello"
        lease.release()  # the pool may have tried a shared one again by now, which stays
        await harness.settled(lambda: not alive(lease.pid))


async def test_w20_every_cancelled_claim_gives_its_seat_back(tmp_path: Path) -> None:
    async with open_pool_harness(tmp_path, limits=Limits(max_processes=1, max_processes_per_key=1)) as harness:
        key = harness.key()
        await harness.transport(key)
        for pauses in range(12):
            task = asyncio.create_task(harness.pool.lease(key))
            for _ in range(pauses):
                await asyncio.sleep(0)
            task.cancel()
            (outcome,) = await asyncio.gather(task, return_exceptions=True)
            if not isinstance(outcome, BaseException):
                outcome.release()
        await harness.settled(lambda: harness.pool.snapshot().core.census.waiting == 0)
        assert harness.pool.snapshot().core.leases == ()


async def test_w20_a_dropped_lease_is_released(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with open_pool_harness(tmp_path) as harness:
        lease = await harness.pool.lease(harness.key())
        assert harness.pool.snapshot().core.census.leased == 1
        del lease
        await harness.settled(lambda: harness.pool.snapshot().core.census.leased == 0)
        assert any("dropped without a release" in record.getMessage() for record in caplog.records)
