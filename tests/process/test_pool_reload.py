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
from tests.support.pools import Stable, alive, open_stable, say
from tests.support.waiting import eventually

# What is over a lowered limit is looked for as often as this.
SWEPT = Limits(sweep_every=0.1)
ONE = replace(SWEPT, max_processes=1, max_processes_per_key=1)


def reload(stable: Stable, **changed: object) -> None:
    stable.pool.reload(replace(stable.settings, **changed), stable.environ)  # type: ignore[arg-type] # fields of PoolSettings


def floors(stable: Stable) -> dict[str, int]:
    """Directory to the seats that are to be kept parked there."""
    keys = stable.pool.snapshot().core.keys
    return {str(key.key): line.floor for key in keys for line in key.lines if line.floor}


async def test_w27a_raised_limits_serve_who_waits_and_lowered_ones_cut_nobody(tmp_path: Path) -> None:
    async with open_stable(tmp_path, limits=ONE, traits={"seats_per_process": 1}) as stable:
        first = await stable.pool.lease(stable.key("a"))
        waiting = asyncio.create_task(stable.pool.lease(stable.key("b")))
        await stable.settled(lambda: stable.pool.snapshot().core.census.waiting == 1)
        reload(stable, limits=replace(SWEPT, max_processes=2))
        second = await asyncio.wait_for(waiting, 300)
        assert stable.pool.snapshot().core.census.max_processes == 2
        reload(stable, limits=ONE)
        assert [await say(lease, "still here") for lease in (first, second)] == ["echo: still here"] * 2
        assert (first.move, second.move) == (None, None)
        gone = second.pid
        second.release()
        await stable.settled(lambda: not alive(gone))
        assert await say(first, "and on") == "echo: and on"
        first.release()


async def test_w27a_limits_that_cannot_be_meant_leave_everything_as_it_was(tmp_path: Path) -> None:
    async with open_stable(tmp_path) as stable:
        await stable.pool.get(stable.key())
        with pytest.raises(SettingsError, match="start_timeout"):
            reload(stable, limits=Limits(start_timeout=1e-3), warm=(WarmKey(stable.key()),))
        await asyncio.sleep(0)
        assert floors(stable) == {}
        async with await stable.pool.lease(stable.key()) as lease:
            assert await say(lease, "hello") == "echo: hello"


async def test_w27a_the_keys_to_keep_warm_are_those_of_the_last_settings(tmp_path: Path) -> None:
    async with open_stable(tmp_path) as stable:
        a, b = stable.key("a"), stable.key("b")
        reload(stable, warm=(WarmKey(a), WarmKey(b, seats=2)))
        await stable.settled(lambda: floors(stable) == {str(a): 1, str(b): 2})
        reload(stable, warm=(WarmKey(a, seats=3), WarmKey(b, ToolSet(), 1)))
        reload(stable, warm=(WarmKey(b, seats=1),))
        await stable.settled(lambda: floors(stable) == {str(b): 1})
        stable.pool.warm(a)
        reload(stable, warm=(WarmKey(b, seats=1),))
        await stable.settled(lambda: stable.pool.snapshot().core.census.parked >= 2)
        assert floors(stable) == {str(a): 1, str(b): 1}, (
            "what an operator ordered by hand is the operator's to take back"
        )


async def test_e11_switched_off_the_shared_processes_end_as_their_sessions_move(tmp_path: Path) -> None:
    async with open_stable(tmp_path, limits=SWEPT) as stable:
        key = stable.key()
        reload(stable, warm=(WarmKey(key),), spares={"demo": 1})
        shared = await stable.pool.lease(key)
        await stable.settled(lambda: len(stable.pids()) == 2)
        was = stable.pids()
        reload(stable, enabled=False, warm=(WarmKey(key),), spares={"demo": 1})
        await asyncio.wait_for(shared.wait_moved(), 300)
        own = await stable.pool.lease(key)
        assert (shared.pooled, own.pooled) == (True, False)
        assert await say(shared, "to the end") == "echo: to the end"
        stable.pool.hint(key)
        shared.release()
        await stable.settled(lambda: stable.pids() == {own.pid})
        assert not any(alive(pid) for pid in was)
        reload(stable, warm=(WarmKey(key),))
        await stable.settled(lambda: stable.pool.snapshot().core.census.parked >= 1)
        again = await stable.pool.lease(key)
        assert (again.pooled, again.warmth) == (True, "parked")
        for lease in (own, again):
            lease.release()


async def test_w27a_a_settings_object_without_providers_keeps_the_switch(tmp_path: Path) -> None:
    async with open_stable(tmp_path) as stable:
        stable.pool.reload(PoolSettings(enabled=False), stable.environ)
        assert stable.pool.snapshot().as_json()["enabled"] is False
        async with await stable.pool.lease(stable.key()) as lease:
            assert not lease.pooled


async def test_e04_other_roots_hold_for_directories_that_were_found_before(tmp_path: Path) -> None:
    async with open_stable(tmp_path) as stable:
        (await stable.pool.lease(stable.key("a"))).release()
        reload(stable, roots=(str(tmp_path / "b"),))
        with pytest.raises(BadDirectory, match="outside the allowed roots"):
            await stable.pool.lease(stable.key("a"))


async def test_a_key_whose_directory_is_gone_can_be_drained(tmp_path: Path) -> None:
    async with open_stable(tmp_path) as stable:
        key = stable.key()
        stable.pool.warm(key)
        await stable.settled(lambda: stable.pool.snapshot().core.census.parked >= 1)
        (pid,) = stable.pids()
        shutil.rmtree(key.cwd)
        stable.pool.warm(key, seats=0)
        stable.pool.drain(key)
        await stable.settled(lambda: not alive(pid))


async def test_a_key_that_is_cooled_stays_down_until_somebody_asks(tmp_path: Path) -> None:
    async with open_stable(tmp_path, limits=SWEPT) as stable:
        key = stable.key()
        for _ in range(5):
            (await stable.pool.lease(key)).release()
        stable.pool.warm(key)
        await stable.settled(lambda: stable.pool.snapshot().core.census.parked >= 1)
        stable.pool.cool(key)
        await stable.settled(lambda: not stable.pool.snapshot().processes)
        other = await stable.pool.lease(stable.key("other"))
        # Some sweeps later: they would start it again, had they anything to start it for.
        await stable.settled(lambda: stable.pool.snapshot().core.leases[0].age > 3 * SWEPT.sweep_every)
        assert {process.key for process in stable.pool.snapshot().processes} == {str(other.key)}
        other.release()
        async with await stable.pool.lease(key) as lease:
            assert await say(lease, "hello") == "echo: hello"


async def test_w27a_a_key_that_new_settings_cannot_make_is_refused_until_they_can(tmp_path: Path) -> None:
    async with open_stable(tmp_path, limits=SWEPT, traits={"approvals": frozenset({Approval.AUTO})}) as stable:
        key = stable.key()
        reload(stable, warm=(WarmKey(key),))
        lease = await stable.pool.lease(key)
        stable.pool.reload(
            replace(stable.settings, warm=(WarmKey(key),), providers={"demo": ProviderSettings(approval=Approval.ASK)}),
            stable.environ,
        )
        await asyncio.wait_for(lease.wait_moved(), 300)
        assert await say(lease, "to the end") == "echo: to the end"
        lease.release()
        await stable.settled(lambda: not stable.pids())
        with pytest.raises(BadSetting, match="approval"):
            await stable.pool.lease(key)
        assert len(stable.starts()) == 1
        reload(stable, warm=(WarmKey(key),))
        await stable.settled(lambda: stable.pool.snapshot().core.census.parked >= 1)
        async with await stable.pool.lease(key) as again:
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
    async with open_stable(tmp_path, watch_every=0.05) as stable:
        a, b = WarmKey(stable.key("a")), WarmKey(stable.key("b"))
        reload(stable, warm=(a, b))
        await stable.settled(lambda: len(floors(stable)) == 2)
        reload(stable, warm=(a,), providers={"demo": agent(tmp_path)})
        await stable.settled(lambda: not floors(stable) and not stable.pids())
        assert "cannot keep" in caplog.text
        install(tmp_path)
        await stable.settled(lambda: floors(stable) == {str(a.key): 1})
        await stable.settled(lambda: stable.pool.snapshot().core.census.parked >= 1)


async def test_a_warm_key_whose_directory_is_missing_is_warm_when_it_is_made(tmp_path: Path) -> None:
    async with open_stable(tmp_path, watch_every=0.05) as stable:
        here, gone = stable.key("here"), TransportKey("demo", "demo", str(tmp_path / "gone"))
        reload(stable, warm=(WarmKey(here), WarmKey(gone)))
        await stable.settled(lambda: floors(stable) == {str(here): 1})
        stable.key("gone")
        await stable.settled(lambda: floors(stable) == {str(here): 1, str(gone): 1})
