"""The pool over time and under pressure, on real agents: warm, bounded, fair, and back to where it began."""

import asyncio
import contextlib
import os
import threading
from dataclasses import replace
from functools import partial
from pathlib import Path

import psutil
import pytest

from ostler.bridge.server import Bridge
from ostler.bridge.settings import BridgeSettings
from ostler.pool import Lease, Limits, ToolSet
from ostler.pool.agent.transport import Transport
from ostler.pool.errors import NestedClaimRefused, PoolSaturated
from ostler.pool.provider import Sharing
from tests.support.counts import Counts
from tests.support.pools import PoolHarness, alive, open_pool_harness, say
from tests.support.waiting import eventually

TOOLS = ToolSet(({"name": "whoami", "description": "says whose call this is", "inputSchema": {"type": "object"}},))
ONE = Limits(max_processes=1, max_processes_per_key=1)


async def test_w18c_a_process_that_hangs_is_replaced_while_another_answers(tmp_path: Path) -> None:
    limits = Limits(probe_every=0.2, probe_misses=2, sweep_every=0.1)
    async with open_pool_harness(tmp_path, limits=limits, deadlines={"probe": 0.2, "cancel_grace": 0.2}) as harness:
        other = await harness.pool.lease(harness.key("other"))
        victim = await harness.pool.lease(harness.key())
        turn = await victim.prompt("!hang all")
        await asyncio.wait_for(victim.wait_moved(), 300)
        assert victim.move == "wedged"
        assert other.move is None
        async with await harness.pool.lease(harness.key()) as fresh:
            assert fresh.pid != victim.pid
            assert await say(fresh, "hello") == "echo: hello"
        turn.cancel()
        victim.release()
        await harness.settled(lambda: not alive(victim.pid), 20)
        assert await say(other, "hello") == "echo: hello"
        other.release()


def test_w18c_wedged_processes_are_looked_for_unless_it_is_switched_off() -> None:
    assert Limits().probe_every is not None


async def test_w35_a_new_login_drains_the_processes_of_the_old_one(tmp_path: Path) -> None:
    login = tmp_path / "login"
    login.write_text("first")
    async with open_pool_harness(tmp_path, traits={"credential_files": ("login",)}, watch_every=0.1) as harness:
        lease = await harness.pool.lease(harness.key())
        login.write_text("second")
        await asyncio.wait_for(lease.wait_moved(), 300)
        assert lease.move == "fingerprint"
        async with await harness.pool.lease(harness.key()) as fresh:
            assert fresh.pid != lease.pid
        lease.release()
        await harness.settled(lambda: not alive(lease.pid))


async def test_w14a_steady_traffic_never_misses_after_the_warm_up(tmp_path: Path) -> None:
    counts = Counts()
    bridge = Bridge(BridgeSettings(data_directory=tmp_path))
    await bridge.start()
    async with open_pool_harness(tmp_path, tool_port=bridge, observer=counts) as harness:
        for number in range(40):
            async with await harness.pool.lease(harness.key(), tools=TOOLS) as lease:
                assert await say(lease, "!tools") == "whoami"
            # Steady: the next one comes when a seat can have been opened for it.
            await harness.settled(lambda: harness.pool.snapshot().core.census.parked > 0)
            if number == 9:
                counts.claims.clear()
        assert set(counts.claims) == {("demo", "demo", "parked", "none")}
        assert len(harness.starts()) == 1
    await bridge.stop()


async def test_e24_two_leases_of_one_key_share_one_process(tmp_path: Path) -> None:
    async with open_pool_harness(tmp_path, "--boot-delay", "0.2") as harness:
        one, other = await asyncio.gather(*(harness.pool.lease(harness.key()) for _ in range(2)))
        assert one.transport is other.transport
        assert len(harness.starts()) == 1
        one.release()
        other.release()


async def test_w23c_a_child_of_the_turn_that_holds_the_only_seat_is_refused_at_once(tmp_path: Path) -> None:
    async with open_pool_harness(tmp_path, traits={"seats_per_process": 1}, limits=ONE) as harness:
        parent = await harness.pool.lease(harness.key(), owner="a")
        with pytest.raises(NestedClaimRefused, match="raise the limits"):
            await asyncio.wait_for(harness.pool.lease(harness.key(), owner="a", parent=parent.id), 300)
        with pytest.raises(NestedClaimRefused):
            await asyncio.wait_for(harness.pool.lease(harness.key("other"), owner="a", parent=parent.id), 300)
        parent.release()
        async with await harness.pool.lease(harness.key(), owner="a") as lease:
            assert await say(lease, "hello") == "echo: hello"


async def test_seats_go_round_the_owners(tmp_path: Path) -> None:
    served: list[str] = []
    async with open_pool_harness(tmp_path, traits={"seats_per_process": 1}, limits=ONE) as harness:
        first = await harness.pool.lease(harness.key(), owner="greedy")

        async def use(owner: str) -> None:
            async with await harness.pool.lease(harness.key(), owner=owner):
                served.append(owner)

        claims = [asyncio.create_task(use("greedy")) for _ in range(6)]
        await asyncio.sleep(0)
        claims += [asyncio.create_task(use(owner)) for owner in ("modest", "modest", "late")]
        await asyncio.sleep(0)
        first.release()
        await asyncio.gather(*claims)
        assert sorted(served[:3]) == ["greedy", "late", "modest"]
        assert served.index("late") < 4
        assert "modest" in served[3:6]


async def test_over_the_queue_limit_a_claim_is_told_when_to_come_again(tmp_path: Path) -> None:
    limits = Limits(max_processes=1, max_processes_per_key=1, max_queue=2)
    async with open_pool_harness(tmp_path, traits={"seats_per_process": 1}, limits=limits) as harness:
        held = await harness.pool.lease(harness.key())
        waiting = [asyncio.create_task(harness.pool.lease(harness.key())) for _ in range(2)]
        await asyncio.sleep(0)
        with pytest.raises(PoolSaturated) as caught:
            await harness.pool.lease(harness.key())
        assert caught.value.retry_after > 0
        assert "1 of 1 processes" in caught.value.census
        assert "2 claims wait" in str(caught.value)
        held.release()
        for claim in waiting:
            (await claim).release()


async def test_one_memory_budget_holds_over_all_process_trees(tmp_path: Path) -> None:
    mib = 1 << 20
    async with open_pool_harness(tmp_path, watch_every=0.1, limits=Limits(memory_budget=300 * mib)) as harness:
        held: list[Lease] = []
        for number in range(3):
            held.append(await harness.pool.lease(harness.key(f"k{number}")))
            await harness.settled(lambda: all(0 < one.memory < 100 * mib for one in harness.pool.snapshot().processes))
            await harness.settled(lambda: harness.pool.snapshot().core.census.memory < 150 * mib)
        real = sum(process.memory_full_info().pss for process in harness.tree())
        counted = harness.pool.snapshot().core.census.memory
        assert 0.5 < counted / real < 2
        for lease in held:
            lease.release()


async def test_w20_500_leases_leave_descriptors_and_memory_where_they_were(tmp_path: Path) -> None:
    here = psutil.Process()
    bridge = Bridge(BridgeSettings(data_directory=tmp_path))
    await bridge.start()
    async with open_pool_harness(tmp_path, tool_port=bridge) as harness:

        async def serve(count: int) -> None:
            for _ in range(count // 10):
                leases = await asyncio.gather(*(harness.pool.lease(harness.key(), tools=TOOLS) for _ in range(10)))
                for lease in leases:
                    lease.release()

        async def rest() -> None:
            await harness.settled(lambda: _resting(harness), 60)

        await serve(60)
        await rest()
        descriptors, memory = here.num_fds(), here.memory_info().rss
        await serve(500)
        await rest()
        parked = harness.pool.snapshot().core.census.parked
        assert here.num_fds() <= descriptors + parked
        assert here.memory_info().rss < memory + (24 << 20)
    await bridge.stop()


def gone(pid: int) -> bool:
    return not alive(pid)


def _resting(harness: PoolHarness) -> bool:
    seen = harness.pool.snapshot()
    (process,) = seen.processes
    return seen.core.census.leased == 0 and process.sessions == seen.core.census.parked == len(harness.relays())


async def test_e06_n53_no_loop_is_stopped_by_a_start(tmp_path: Path) -> None:
    gate, begun = tmp_path / "gate", threading.Event()
    os.mkfifo(gate)
    async with open_pool_harness(tmp_path) as harness:
        shut = replace(harness.settings.providers["demo"], prefix=("sh", "-c", f'read -r _ <"{gate}"; exec "$@"', "sh"))
        harness.pool.reload(replace(harness.settings, providers={"demo": shut}), harness.environ)

        async def claim_and_run(ran: threading.Event) -> Transport:
            asked = asyncio.ensure_future(harness.transport())
            assert await asyncio.to_thread(begun.wait, 300)
            for _ in range(1000):
                await asyncio.sleep(0)
            assert not asked.done()
            ran.set()
            return await asked

        loops = [threading.Event() for _ in range(4)]
        own = asyncio.create_task(claim_and_run(loops[0]))
        foreign = [asyncio.create_task(asyncio.to_thread(asyncio.run, claim_and_run(ran))) for ran in loops[1:]]
        await eventually(harness.pool.under_way, "the start has begun")
        begun.set()
        for ran in loops:
            assert await asyncio.to_thread(ran.wait, 300)
        await asyncio.to_thread(gate.write_text, "open\n")
        assert len({one.pid for one in await asyncio.gather(own, *foreign)}) == 1


async def test_a_warm_key_of_an_agent_that_serves_one_session_has_a_process_ready(tmp_path: Path) -> None:
    async with open_pool_harness(tmp_path, traits={"sharing": Sharing.NONE}) as harness:
        harness.pool.warm(harness.key(), seats=2)
        await harness.settled(lambda: harness.pool.snapshot().core.census.parked == 2)
        assert len(harness.pids()) == 2
        for _ in range(3):
            lease = await harness.pool.lease(harness.key())
            lease.release()
            await harness.settled(partial(gone, lease.pid))
        await harness.settled(lambda: harness.pool.snapshot().core.census.parked == 2)


async def test_w35_a_login_that_cannot_be_read_stops_the_watch_and_nothing_else(tmp_path: Path) -> None:
    login = tmp_path / "login"
    async with open_pool_harness(tmp_path, traits={"credential_files": ("login",)}, watch_every=0.05) as harness:
        lease = await harness.pool.lease(harness.key())
        os.mkfifo(login)
        held: list[int] = []

        def somebody_reads() -> bool:
            with contextlib.suppress(OSError):  # no reader yet
                held.append(os.open(login, os.O_WRONLY | os.O_NONBLOCK))
            return bool(held)

        await harness.settled(somebody_reads)
        login.unlink()
        assert await say(lease, "hello") == "echo: hello"
        os.close(held[0])
        lease.release()
