"""A HOME on a disk that does not answer: whatever the pool wants of it, the loop goes on and the newest settings win.

The login file is a FIFO that nobody ends: whoever reads it waits. A pool that read it on its loop would wait with it,
and every test here would end at its deadline.
"""

import asyncio
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ostler.pool import Limits, PoolSettings, ProviderSettings, ToolSet, TransportPool, WarmKey, open_pool
from ostler.pool.agent.per_home import PerHome
from ostler.pool.agent.transport import Transport
from ostler.pool.core.machine import PoolCore
from ostler.pool.core.sizing import ReserveRule
from ostler.pool.errors import AgentStartFailed, BadDirectory, Phase
from ostler.pool.keys import PoolKey, TransportKey
from ostler.pool.launch.builder import Launch
from ostler.pool.launch.edition import SettingsEdition
from ostler.pool.provider import Provider
from ostler.pool.providers import load
from ostler.pool.runner.launches import Launches
from ostler.process.probe import LOOKS
from ostler.process.supervisor import ProcessSupervisor
from tests.support.counts import Counts
from tests.support.pools import PoolHarness, demo_settings, open_pool_harness, say, transport_of
from tests.support.waiting import eventually

LOGIN = "login"
TRAITS: dict[str, Any] = {"credential_files": (LOGIN,)}


@contextmanager
def stuck(folder: Path) -> Iterator[None]:
    """The login file cannot be read through as long as this lasts; afterwards it is an empty one."""
    path, fifo = folder / LOGIN, folder / "fifo"
    os.mkfifo(fifo)
    fifo.replace(path)
    held = os.open(path, os.O_RDWR)
    try:
        yield
    finally:
        fifo.touch()
        fifo.replace(path)
        os.close(held)


def two_providers() -> dict[str, Provider]:
    """The demo agent, whose login lies in HOME, and the same by another name, which has none."""
    demo = load()["demo"]
    return {"demo": replace(demo, **TRAITS), "well": replace(demo, name="well")}


def reload(harness: PoolHarness, *flags: str) -> None:
    changed = demo_settings(harness.record, *flags)
    harness.pool.reload(PoolSettings(providers={"demo": changed}), harness.environ)


def parked(harness: PoolHarness) -> int:
    return harness.pool.snapshot().core.census.parked


async def test_w27a_a_reload_waits_for_no_disk(tmp_path: Path) -> None:
    async with open_pool_harness(tmp_path, traits=TRAITS) as harness:
        lease = await harness.pool.lease(harness.key())
        with stuck(tmp_path):
            reload(harness, "--call-timeout=9")
            assert await say(lease, "still here") == "echo: still here"
            assert lease.move is None
        await asyncio.wait_for(lease.wait_moved(), 300)
        assert lease.move == "fingerprint"


async def test_w27a_what_is_claimed_after_a_reload_is_of_the_last_one(tmp_path: Path) -> None:
    async with open_pool_harness(tmp_path, traits=TRAITS) as harness:
        old = await harness.pool.lease(harness.key())
        with stuck(tmp_path):
            reload(harness, "--call-timeout=8")
            first = asyncio.create_task(harness.pool.lease(harness.key()))
            await asyncio.sleep(0)
            reload(harness, "--call-timeout=9")
            second = asyncio.create_task(harness.pool.lease(harness.key()))
            assert await say(old, "still here") == "echo: still here"
        leases = await asyncio.gather(first, second)
        assert old.pid not in {lease.pid for lease in leases}
        assert all("--call-timeout=8" not in start["argv"] for start in harness.starts())


async def test_a_claim_that_waits_for_a_disk_while_sharing_is_switched_off_shares_with_nobody(tmp_path: Path) -> None:
    async with open_pool_harness(tmp_path, traits=TRAITS) as harness:
        with stuck(tmp_path):
            claim = asyncio.create_task(harness.pool.lease(harness.key()))
            await eventually(lambda: any(each.name.startswith("look at (") for each in threading.enumerate()))
            harness.pool.reload(replace(harness.settings, enabled=False), harness.environ)
        lease = await claim
        assert not lease.pooled


async def test_an_order_for_an_unknown_key_waits_for_no_disk(tmp_path: Path) -> None:
    async with open_pool_harness(tmp_path, traits=TRAITS) as harness:
        with stuck(tmp_path):
            harness.pool.warm(harness.key())
            assert parked(harness) == 0
        await harness.settled(lambda: parked(harness) >= 1)


async def test_orders_for_an_unknown_key_are_carried_out_in_their_order(tmp_path: Path) -> None:
    async with open_pool_harness(tmp_path) as harness:
        key = harness.key()
        harness.pool.pause(key)
        harness.pool.warm(key, ToolSet(), 3)
        harness.pool.warm(key, ToolSet(), 2)
        harness.pool.resume(key)
        await harness.settled(lambda: parked(harness) == 2)
        (view,) = harness.pool.snapshot().core.keys
        assert not view.paused
        assert [line.floor for line in view.lines] == [2]


async def test_an_order_that_cannot_be_carried_out_is_logged_and_takes_nothing_with_it(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with open_pool_harness(tmp_path) as harness:
        missing = TransportKey("demo", "demo", str(tmp_path / "missing"))
        harness.pool.warm(missing)
        await harness.settled(lambda: "missing" in caplog.text)
        with pytest.raises(BadDirectory):
            await harness.pool.learn(missing)
        async with await harness.pool.lease(harness.key()) as lease:
            assert await say(lease, "hello") == "echo: hello"


async def test_an_order_that_the_shutdown_overtakes_is_refused_and_no_bug(tmp_path: Path) -> None:
    counts = Counts()
    async with open_pool_harness(tmp_path, traits=TRAITS, observer=counts) as harness:
        # The shutdown waits for its process, and the look at the order's key comes back meanwhile.
        lease = await harness.pool.lease(harness.key())
        with stuck(tmp_path):
            harness.pool.warm(harness.key("other"))
            await asyncio.sleep(0)
            closing = asyncio.create_task(harness.pool.shutdown())
            await asyncio.sleep(0)
        await closing
        lease.release()
    assert counts.notes["demo", "order_failed", "PoolClosed"] == 1
    assert not [note for note in counts.notes if note[1] == "bug"]


async def test_an_order_to_a_pool_that_is_not_started_does_not_hold_up_the_next(tmp_path: Path) -> None:
    async with open_pool_harness(tmp_path) as harness:
        idle = TransportPool(
            harness.settings, providers=load(), start_transport=refuse_to_start, environ=harness.environ
        )
        with pytest.raises(RuntimeError, match="was not started"):
            idle.pause(harness.key())
        async with idle:
            idle.pause(harness.key())
            await eventually(lambda: [key.paused for key in idle.snapshot().core.keys] == [True])


class Reloads(Counts):
    """Brings new settings at the very moment in which something is noted, or a process or seat has come up, once."""

    def __init__(self, word: str) -> None:
        super().__init__()
        self._word = word
        self.reload: Callable[[], None] | None = None

    def noted(self, provider: str, what: str, cause: str) -> None:
        super().noted(provider, what, cause)
        self._at(what)

    def started(self, provider: str, outcome: str, phase: str, seconds: float) -> None:
        super().started(provider, outcome, phase, seconds)
        self._at(outcome)

    def opened(self, provider: str, outcome: str, seconds: float) -> None:
        super().opened(provider, outcome, seconds)
        self._at(outcome)

    def _at(self, word: str) -> None:
        if word == self._word and self.reload is not None:
            reload, self.reload = self.reload, None
            reload()


async def test_keys_on_a_living_disk_wait_for_none_on_a_dead_one(tmp_path: Path) -> None:
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    well = TransportKey("well", "demo", str(tmp_path))
    dead = [TransportKey("demo", f"model-{number}", str(tmp_path)) for number in range(2)]
    settings = PoolSettings(warm=tuple(WarmKey(key) for key in (*dead, well)))
    async with open_pool(
        PoolSettings(), runtime_dir=tmp_path / "run", environ=environ, providers=two_providers()
    ) as pool:
        for key in (*dead, well):
            await pool.learn(key)
        with stuck(tmp_path):
            pool.reload(settings, environ)
            await eventually(lambda: [key.key.key for key in pool.snapshot().core.keys if key.lines] == [well])
        await eventually(lambda: all(key.lines for key in pool.snapshot().core.keys))


@pytest.mark.long  # the patience of a look, which nobody uses meanwhile
async def test_a_floor_on_a_disk_that_does_not_answer_stays_as_it_is(tmp_path: Path) -> None:
    counts, key = Counts(), TransportKey("demo", "demo", str(tmp_path))
    async with open_pool_harness(tmp_path, traits=TRAITS, observer=counts, warm=(WarmKey(key),)) as harness:
        await eventually(lambda: parked(harness) == 1)
        with stuck(tmp_path):
            harness.pool.reload(harness.settings, harness.environ)
            await eventually(lambda: any(what == "warm_failed" for _, what, _ in counts.notes), "the look in vain")
            (line,) = (line for key in harness.pool.snapshot().core.keys for line in key.lines if line.floor)
            assert line.floor == 1


async def test_w27a_reloads_over_a_dead_disk_leave_looks_for_the_living(tmp_path: Path) -> None:
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    edition, core = SettingsEdition(PoolSettings(), two_providers(), environ), PoolCore(Limits())
    launches = Launches(edition, core, lambda event: core.handle(event, 0.0) and None)
    dead = PoolKey(TransportKey("demo", "demo", str(tmp_path)))
    with stuck(tmp_path):
        for number in range(LOOKS + 1):
            changed = ProviderSettings(args=(f"--call-timeout={number + 1}",))
            launches.edition = edition.next(PoolSettings(providers={"demo": changed}), environ)
            with pytest.raises(AgentStartFailed, match="could not be read"):
                await launches.prepare(dead, 0.01)
        await launches.prepare(PoolKey(TransportKey("well", "demo", str(tmp_path))), 10.0)
        # Settings that name another disk are looked at, however many looks at the old one are lost.
        other = tmp_path / "other"
        other.mkdir()
        launches.edition = edition.next(PoolSettings(providers={"demo": ProviderSettings(home=str(other))}), environ)
        await launches.prepare(dead, 10.0)
    await launches.prepare(dead, 10.0)


async def test_w27a_a_fallback_after_a_reload_is_made_by_the_new_settings(tmp_path: Path) -> None:
    begun: list[Launch] = []

    async def fail_to_start(launch: Launch) -> Transport:
        begun.append(launch)
        raise AgentStartFailed(provider="demo", phase=Phase.HANDSHAKE, command=(), why="it is a test", waited=0.0)

    observer = Reloads("fallback")
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    idle = TransportPool(
        PoolSettings(), providers=load(), start_transport=fail_to_start, environ=environ, observer=observer
    )
    changed = PoolSettings(providers={"demo": ProviderSettings(args=("--call-timeout=9",))})
    observer.reload = lambda: idle.reload(changed, environ)
    async with idle:
        with pytest.raises(AgentStartFailed):
            await idle.lease(TransportKey("demo", "demo", str(tmp_path)))
    first, *later = ["--call-timeout=9" in launch.command.argv for launch in begun]
    assert (first, set(later)) == (False, {True})


async def test_w27a_a_claim_whose_process_died_at_a_reload_tries_again_by_the_new_settings(tmp_path: Path) -> None:
    observer, begun = Reloads("opened"), list[Launch]()
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    supervisor = await ProcessSupervisor.open(tmp_path / "run", "claims")

    async def start(launch: Launch) -> Transport:
        begun.append(launch)
        return await Transport.start(launch, supervisor=supervisor, per_home=PerHome())

    plain = PoolSettings(limits=Limits(reserve=ReserveRule(keep_seconds=1e-6)))  # only claims start processes
    pool = TransportPool(plain, providers=load(), start_transport=start, environ=environ, observer=observer)
    changed = replace(plain, providers={"demo": ProviderSettings(args=("--call-timeout=9",))})

    def upset() -> None:
        (running,) = pool.snapshot().core.keys[0].slots
        pool.kill(running.slot)
        pool.reload(changed, environ)

    # In the step after the one in which the claim is granted, before the claimer has its turn.
    observer.reload = lambda: asyncio.get_running_loop().call_soon(upset) and None
    async with pool:
        await transport_of(pool, TransportKey("demo", "demo", str(tmp_path)))
    await supervisor.aclose()
    first, *later = ["--call-timeout=9" in launch.command.argv for launch in begun]
    assert (first, set(later)) == (False, {True})


async def refuse_to_start(launch: Launch) -> Transport:
    raise AssertionError(launch)


async def test_a_spare_is_made_of_what_was_read_for_its_key(tmp_path: Path) -> None:
    async with open_pool_harness(tmp_path, traits=TRAITS, spares={"demo": 1}) as harness:
        await harness.pool.learn(harness.key())
        await harness.settled(lambda: len(harness.pool.snapshot().core.spares) == 1)
        (spare,) = harness.pool.snapshot().core.spares
        with stuck(tmp_path):
            harness.pool.kill(spare.slot)
            await harness.settled(
                lambda: [one.slot for one in harness.pool.snapshot().core.spares] not in ([], [spare.slot])
            )


async def test_settings_of_which_nothing_can_be_made_refuse_the_next_claim(tmp_path: Path) -> None:
    async with open_pool_harness(tmp_path) as harness:
        lease = await harness.pool.lease(harness.key())
        agent = replace(demo_settings(harness.record), command=("no-such-agent",))
        harness.pool.reload(PoolSettings(providers={"demo": agent}), harness.environ)
        with pytest.raises(AgentStartFailed, match="no-such-agent"):
            await harness.pool.lease(harness.key())
        await asyncio.wait_for(lease.wait_moved(), 300)
