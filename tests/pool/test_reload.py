"""New settings for a living pool: limits, keys to keep warm, and the switch. RE, W27a."""

import asyncio
import os
import shutil
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from ostler.pool import Limits, PoolSettings, ProviderSettings, ToolSet, TransportKey, WarmKey, open_pool
from ostler.pool.core import SettingsError
from ostler.pool.errors import BadDirectory
from ostler.pool.launch.settings import BadSetting
from ostler.pool.provider import Approval
from tests.support.pools import PoolHarness, alive, open_pool_harness, say
from tests.support.waiting import eventually

# What is over a lowered limit is looked for as often as this.
SWEPT = Limits(sweep_every=0.1)
ONE = replace(SWEPT, max_processes=1, max_processes_per_key=1)


def reload(harness: PoolHarness, **changed: object) -> None:
    harness.pool.reload(replace(harness.settings, **changed), harness.environ)  # type: ignore[arg-type] # fields of PoolSettings


def floors(harness: PoolHarness) -> dict[str, int]:
    """Directory to the seats that are to be kept parked there."""
    keys = harness.pool.snapshot().core.keys
    return {str(key.key): line.floor for key in keys for line in key.lines if line.floor}


async def test_w27a_raised_limits_serve_who_waits_and_lowered_ones_cut_nobody(tmp_path: Path) -> None:
    async with open_pool_harness(tmp_path, limits=ONE, traits={"seats_per_process": 1}) as harness:
        first = await harness.pool.lease(harness.key("a"))
        waiting = asyncio.create_task(harness.pool.lease(harness.key("b")))
        await harness.settled(lambda: harness.pool.snapshot().core.census.waiting == 1)
        reload(harness, limits=replace(SWEPT, max_processes=2))
        second = await asyncio.wait_for(waiting, 300)
        assert harness.pool.snapshot().core.census.max_processes == 2
        reload(harness, limits=ONE)
        assert [await say(lease, "still here") for lease in (first, second)] == ["echo: still here"] * 2
        assert (first.move, second.move) == (None, None)
        gone = second.pid
        second.release()
        await harness.settled(lambda: not alive(gone))
        assert await say(first, "and on") == "echo: and on"
        first.release()


async def test_w27a_limits_that_cannot_be_meant_leave_everything_as_it_was(tmp_path: Path) -> None:
    async with open_pool_harness(tmp_path) as harness:
        await harness.transport()
        with pytest.raises(SettingsError, match="start_timeout"):
            reload(harness, limits=Limits(start_timeout=1e-3), warm=(WarmKey(harness.key()),))
        await asyncio.sleep(0)
        assert floors(harness) == {}
        async with await harness.pool.lease(harness.key()) as lease:
            assert await say(lease, "hello") == "echo: hello"


async def test_w27a_the_keys_to_keep_warm_are_those_of_the_last_settings(tmp_path: Path) -> None:
    async with open_pool_harness(tmp_path) as harness:
        a, b = harness.key("a"), harness.key("b")
        reload(harness, warm=(WarmKey(a), WarmKey(b, seats=2)))
        await harness.settled(lambda: floors(harness) == {str(a): 1, str(b): 2})
        reload(harness, warm=(WarmKey(a, seats=3), WarmKey(b, ToolSet(), 1)))
        reload(harness, warm=(WarmKey(b, seats=1),))
        await harness.settled(lambda: floors(harness) == {str(b): 1})
        harness.pool.warm(a)
        reload(harness, warm=(WarmKey(b, seats=1),))
        await harness.settled(lambda: harness.pool.snapshot().core.census.parked >= 2)
        assert floors(harness) == {str(a): 1, str(b): 1}, (
            "what an operator ordered by hand is the operator's to take back"
        )


async def test_e11_switched_off_the_shared_processes_end_as_their_sessions_move(tmp_path: Path) -> None:
    async with open_pool_harness(tmp_path, limits=SWEPT) as harness:
        key = harness.key()
        reload(harness, warm=(WarmKey(key),), spares={"demo": 1})
        shared = await harness.pool.lease(key)
        await harness.settled(lambda: len(harness.pids()) == 2)
        was = harness.pids()
        reload(harness, enabled=False, warm=(WarmKey(key),), spares={"demo": 1})
        await asyncio.wait_for(shared.wait_moved(), 300)
        own = await harness.pool.lease(key)
        assert (shared.pooled, own.pooled) == (True, False)
        assert await say(shared, "to the end") == "echo: to the end"
        shared.release()
        await harness.settled(lambda: harness.pids() == {own.pid})
        assert not any(alive(pid) for pid in was)
        reload(harness, warm=(WarmKey(key),))
        await harness.settled(lambda: harness.pool.snapshot().core.census.parked >= 1)
        again = await harness.pool.lease(key)
        assert (again.pooled, again.warmth) == (True, "parked")
        for lease in (own, again):
            lease.release()


async def test_w27a_a_settings_object_without_providers_keeps_the_switch(tmp_path: Path) -> None:
    async with open_pool_harness(tmp_path) as harness:
        harness.pool.reload(PoolSettings(enabled=False), harness.environ)
        assert harness.pool.snapshot().as_json()["enabled"] is False
        async with await harness.pool.lease(harness.key()) as lease:
            assert not lease.pooled


async def test_e04_other_roots_hold_for_directories_that_were_found_before(tmp_path: Path) -> None:
    async with open_pool_harness(tmp_path) as harness:
        (await harness.pool.lease(harness.key("a"))).release()
        reload(harness, roots=(str(tmp_path / "b"),))
        with pytest.raises(BadDirectory, match="outside the allowed roots"):
            await harness.pool.lease(harness.key("a"))


async def test_a_key_whose_directory_is_gone_can_be_drained(tmp_path: Path) -> None:
    async with open_pool_harness(tmp_path) as harness:
        key = harness.key()
        harness.pool.warm(key)
        await harness.settled(lambda: harness.pool.snapshot().core.census.parked >= 1)
        (pid,) = harness.pids()
        shutil.rmtree(key.cwd)
        harness.pool.warm(key, seats=0)
        harness.pool.drain(key)
        await harness.settled(lambda: not alive(pid))


async def test_a_key_that_is_cooled_stays_down_until_somebody_asks(tmp_path: Path) -> None:
    async with open_pool_harness(tmp_path, limits=SWEPT) as harness:
        key = harness.key()
        for _ in range(5):
            (await harness.pool.lease(key)).release()
        harness.pool.warm(key)
        await harness.settled(lambda: harness.pool.snapshot().core.census.parked >= 1)
        harness.pool.cool(key)
        await harness.settled(lambda: not harness.pool.snapshot().processes)
        other = await harness.pool.lease(harness.key("other"))
        # Some sweeps later: they would start it again, had they anything to start it for.
        await harness.settled(lambda: harness.pool.snapshot().core.leases[0].age > 3 * SWEPT.sweep_every)
        assert {process.key for process in harness.pool.snapshot().processes} == {str(other.key)}
        other.release()
        async with await harness.pool.lease(key) as lease:
            assert await say(lease, "hello") == "echo: hello"


async def test_w27a_a_key_that_new_settings_cannot_make_is_refused_until_they_can(tmp_path: Path) -> None:
    async with open_pool_harness(tmp_path, limits=SWEPT, traits={"approvals": frozenset({Approval.AUTO})}) as harness:
        key = harness.key()
        reload(harness, warm=(WarmKey(key),))
        lease = await harness.pool.lease(key)
        harness.pool.reload(
            replace(
                harness.settings, warm=(WarmKey(key),), providers={"demo": ProviderSettings(approval=Approval.ASK)}
            ),
            harness.environ,
        )
        await asyncio.wait_for(lease.wait_moved(), 300)
        assert await say(lease, "to the end") == "echo: to the end"
        lease.release()
        await harness.settled(lambda: not harness.pids())
        with pytest.raises(BadSetting, match="approval"):
            await harness.pool.lease(key)
        assert len(harness.starts()) == 1
        reload(harness, warm=(WarmKey(key),))
        await harness.settled(lambda: harness.pool.snapshot().core.census.parked >= 1)
        async with await harness.pool.lease(key) as again:
            assert await say(again, "mended") == "echo: mended"


def agent(folder: Path) -> ProviderSettings:
    """The demo agent by a name of its own, so that it may be missing."""
    return ProviderSettings(command=(str(folder / "agent"),))


def install(folder: Path) -> None:
    """The program appears, whole."""
    script = folder / "agent.new"
    script.write_text(f'#!/bin/sh\nexec {sys.executable} -m ostler.demo "$@"\n')
    script.chmod(0o755)
    script.replace(folder / "agent")


async def test_a_warm_key_whose_program_is_missing_at_the_start_is_warm_when_it_is_there(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    warm = (WarmKey(TransportKey("demo", "demo", str(tmp_path))),)
    settings = PoolSettings(providers={"demo": agent(tmp_path)}, warm=warm, watch_every=0.05)
    async with open_pool(settings, runtime_dir=tmp_path / "run", environ=environ) as pool:
        await eventually(lambda: "cannot keep" in caplog.text)
        install(tmp_path)
        await eventually(lambda: pool.snapshot().core.census.parked)
    assert caplog.text.count("cannot keep") == 1


async def test_w27a_a_warm_key_whose_program_is_missing_at_a_reload_is_warm_when_it_is_back(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_pool_harness(tmp_path, watch_every=0.05) as harness:
        a, b = WarmKey(harness.key("a")), WarmKey(harness.key("b"))
        reload(harness, warm=(a, b))
        await harness.settled(lambda: len(floors(harness)) == 2)
        reload(harness, warm=(a,), providers={"demo": agent(tmp_path)})
        await harness.settled(lambda: not floors(harness) and not harness.pids())
        assert "cannot keep" in caplog.text
        install(tmp_path)
        await harness.settled(lambda: floors(harness) == {str(a.key): 1})
        await harness.settled(lambda: harness.pool.snapshot().core.census.parked >= 1)


async def test_a_warm_key_whose_directory_is_missing_is_warm_when_it_is_made(tmp_path: Path) -> None:
    async with open_pool_harness(tmp_path, watch_every=0.05) as harness:
        here, gone = harness.key("here"), TransportKey("demo", "demo", str(tmp_path / "gone"))
        reload(harness, warm=(WarmKey(here), WarmKey(gone)))
        await harness.settled(lambda: floors(harness) == {str(here): 1})
        harness.key("gone")
        await harness.settled(lambda: floors(harness) == {str(here): 1, str(gone): 1})
