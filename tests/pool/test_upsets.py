"""What goes wrong at the worst moment: the pool forgets nothing, keeps nothing, and goes on."""

import asyncio
import gc
import os
import shutil
import signal
import sys
import threading
import weakref
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from contextvars import ContextVar
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import psutil
import pytest

from ostler.bridge.binding import BindingState
from ostler.bridge.server import Bridge
from ostler.bridge.session_binding import SessionBinding
from ostler.bridge.settings import BridgeSettings
from ostler.pool import Limits, PoolSettings, ToolSet, TransportKey, TransportPool, WarmKey
from ostler.pool.agent.per_home import PerHome
from ostler.pool.agent.transport import Transport
from ostler.pool.core import ReserveRule
from ostler.pool.errors import AgentStartFailed, BadDirectory, BreakerOpen, Phase, PoolClosed, PoolError, SharedProcess
from ostler.pool.keys import pool_key
from ostler.pool.launch.finder import PathFinder
from ostler.pool.ports import ToolTicket
from ostler.pool.providers import load
from ostler.pool.runner.live_seat import LiveSeat
from ostler.process import ProcessSupervisor, Survivors
from ostler.wire.json import JsonObject
from tests.support.counts import Counts
from tests.support.pools import alive, demo_settings, open_pool_harness, say, transport_of
from tests.support.small_disk import filled, small_disk
from tests.support.waiting import eventually

TOOLS = ToolSet(({"name": "whoami", "description": "says whose call this is", "inputSchema": {"type": "object"}},))
SHORT_OF_ROOM = 8
"""Starts: more than open a breaker."""
ONE = Limits(max_processes=1, max_processes_per_key=1)
SLOW_TO_CLOSE = replace(ONE, close_timeout=3600.0)
"""A place that nobody gave back is never taken for a leak."""

REFUSES_SESSIONS = """
import json, sys
for line in sys.stdin:
    frame = json.loads(line)
    if frame.get("method") == "session/new":
        said = {"error": {"code": -32603, "message": "not today"}}
    else:
        said = {"result": {"protocolVersion": 1, "agentCapabilities": {"sessionCapabilities": {"close": {}}}}}
    print(json.dumps({"jsonrpc": "2.0", "id": frame["id"], **said}), flush=True)
"""


class Tickets:
    """A bridge that remembers every ticket it gave out."""

    def __init__(self, bridge: Bridge) -> None:
        self._bridge = bridge
        self.issued: list[SessionBinding] = []

    def open(self, definitions: Sequence[JsonObject]) -> SessionBinding:
        ticket = self._bridge.open(definitions)
        self.issued.append(ticket)
        return ticket


@asynccontextmanager
async def bridge_in(folder: Path) -> AsyncIterator[Bridge]:
    bridge = Bridge(BridgeSettings(data_directory=folder))
    await bridge.start()
    try:
        yield bridge
    finally:
        await bridge.stop()


def living(kind: type) -> int:
    """How many of a kind somebody still holds."""
    gc.collect()
    return sum(isinstance(each, kind) for each in gc.get_objects())


async def test_w33b_a_start_that_is_stopped_in_the_same_breath_leaves_no_slot(tmp_path: Path) -> None:
    async with open_pool_harness(tmp_path) as harness:
        key = harness.key()
        harness.pool.warm(key)
        harness.pool.warm(key, seats=0)
        harness.pool.drain(key)
        await harness.settled(lambda: harness.pool.snapshot().core.census.processes == 0)
        async with asyncio.timeout(300):
            await harness.pool.shutdown()


async def test_w27a_a_reload_in_the_same_breath_as_a_start_replaces_it(tmp_path: Path) -> None:
    async with open_pool_harness(tmp_path, limits=ONE) as harness:
        harness.pool.warm(harness.key())
        changed = demo_settings(harness.record, env={"CHANGED": "yes"})
        harness.pool.reload(PoolSettings(providers={"demo": changed}), harness.environ)
        async with await harness.pool.lease(harness.key(), deadline=300) as lease:
            assert await say(lease, "hello") == "echo: hello"


async def test_w34a_a_refused_open_gives_its_place_back_at_once(tmp_path: Path) -> None:
    agent = replace(demo_settings(tmp_path / "record"), command=(sys.executable, "-c", REFUSES_SESSIONS), args=())
    async with open_pool_harness(tmp_path, traits={"seats_per_process": 1}, limits=SLOW_TO_CLOSE) as harness:
        harness.pool.reload(replace(harness.settings, providers={"demo": agent}), harness.environ)
        for _ in range(2):
            with pytest.raises(AgentStartFailed, match="not today"):
                await harness.pool.lease(harness.key(), deadline=300)
        leaked = [slot.leaked for key in harness.pool.snapshot().core.keys for slot in key.slots]
        assert leaked == [0]


@pytest.mark.parametrize("how", ["died", "killed"])
async def test_f20_the_tickets_of_parked_seats_end_with_their_process(tmp_path: Path, how: str) -> None:
    async with bridge_in(tmp_path) as bridge:
        port = Tickets(bridge)
        before = living(LiveSeat)
        async with open_pool_harness(tmp_path, tool_port=port) as harness:
            harness.pool.warm(harness.key(), TOOLS, 2)
            await harness.settled(lambda: harness.pool.snapshot().core.census.parked == 2)
            (process,) = harness.pool.snapshot().processes
            assert process.pid is not None
            harness.pool.pause()
            if how == "died":
                os.kill(process.pid, signal.SIGKILL)
            else:
                harness.pool.kill(process.slot)
            await harness.settled(lambda: not harness.pool.snapshot().processes)
            assert [ticket.state for ticket in port.issued] == [BindingState.REVOKED] * 2
            assert living(LiveSeat) == before


class Doomed:
    """Tickets of which the first one's relay dies when it has listed its tools, before anybody looks at it again."""

    def __init__(self, bridge: Bridge, made: "type[Widow] | None" = None) -> None:
        self._tickets = Tickets(bridge)
        self._bridge = bridge
        self._made = made or Widow
        self.issued = self._tickets.issued

    def open(self, definitions: Sequence[JsonObject]) -> ToolTicket:
        ticket = self._tickets.open(definitions)
        return self._made(ticket, self._end) if len(self.issued) == 1 else ticket

    async def _end(self) -> None:
        for child in psutil.Process().children(recursive=True):
            if "relay" in child.cmdline():
                child.kill()
        await eventually(lambda: self._bridge.stats.connected == 0, "the loss of the relay")


class Widow:
    """A ticket like any other; `attached` returns a moment too late."""

    def __init__(self, ticket: SessionBinding, end: Callable[[], Awaitable[None]]) -> None:
        self._ticket = ticket
        self._end = end

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ticket, name)

    async def attached(self) -> None:
        await self._ticket.attached()
        await self._end()


async def test_m07_a_seat_whose_relay_died_as_soon_as_it_had_come_is_never_handed_out(tmp_path: Path) -> None:
    async with bridge_in(tmp_path) as bridge:
        port = Doomed(bridge)
        # One at a time: else a seat that is opened ahead would take the place of the bad one, and nobody be told.
        async with open_pool_harness(tmp_path, tool_port=port, traits={"seats_per_process": 1}, limits=ONE) as harness:
            with pytest.raises(AgentStartFailed, match="lost them at once") as raised:
                await harness.pool.lease(harness.key(), tools=TOOLS)
            assert raised.value.phase is Phase.TOOLS
            assert port.issued[0].state is BindingState.REVOKED
            async with await harness.pool.lease(harness.key(), tools=TOOLS) as lease:
                assert await say(lease, "!tools") == "whoami"


class Doubter(Widow):
    """It asks once more when the relay is gone."""

    async def attached(self) -> None:
        await super().attached()
        await eventually(lambda: self._ticket.lost, "the bridge gives the ticket up")
        await self._ticket.attached()


async def test_n16_a_relay_that_ends_while_its_seat_is_opened_is_a_failed_open_and_no_fault_of_ours(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with bridge_in(tmp_path) as bridge:
        port = Doomed(bridge, Doubter)
        async with open_pool_harness(tmp_path, tool_port=port, traits={"seats_per_process": 1}, limits=ONE) as harness:
            with pytest.raises(AgentStartFailed, match="lost them at once") as raised:
                await harness.pool.lease(harness.key(), tools=TOOLS)
            assert raised.value.phase is Phase.TOOLS
            async with await harness.pool.lease(harness.key(), tools=TOOLS) as lease:
                assert await say(lease, "!tools") == "whoami"
    assert [record.getMessage() for record in caplog.records if record.levelname == "ERROR"] == []


class Jammed(Tickets):
    """Tickets that cannot be dismissed."""

    def open(self, definitions: Sequence[JsonObject]) -> Any:
        return Stuck(super().open(definitions))


class Stuck:
    """A ticket like any other, until it is dismissed."""

    def __init__(self, ticket: SessionBinding) -> None:
        self._ticket = ticket

    def __getattr__(self, name: str) -> Any:
        return getattr(self._ticket, name)

    def dismiss(self) -> None:
        raise ZeroDivisionError


async def test_w34a_a_ticket_that_fails_at_the_end_keeps_no_place(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with bridge_in(tmp_path) as bridge:
        traits = {"seats_per_process": 1}
        async with open_pool_harness(
            tmp_path, tool_port=Jammed(bridge), traits=traits, limits=SLOW_TO_CLOSE
        ) as harness:
            for _ in range(2):
                (await harness.pool.lease(harness.key(), tools=TOOLS, deadline=300)).release()
            await harness.settled(lambda: not harness.pool.snapshot().core.leases)
            assert [slot.leaked for key in harness.pool.snapshot().core.keys for slot in key.slots] == [0]
    assert "ZeroDivisionError" in caplog.text


async def test_wm5_a_claim_cancelled_after_its_grant_leaves_nothing(tmp_path: Path) -> None:
    before = living(LiveSeat)
    # Nothing is opened ahead: every seat is a claim's.
    async with open_pool_harness(tmp_path, limits=Limits(reserve=ReserveRule(keep_seconds=1e-6))) as harness:
        await harness.transport()
        claim = asyncio.create_task(harness.pool.lease(harness.key()))
        while not harness.pool.snapshot().core.leases:  # noqa: ASYNC110 (the very turn of the loop is the point)
            await asyncio.sleep(0)
        assert not claim.done()
        claim.cancel()
        await asyncio.wait([claim])
        assert claim.cancelled()
        assert harness.pool.snapshot().core.leases == ()
        await harness.settled(lambda: living(LiveSeat) == before)


async def test_w16_a_key_that_the_limits_refuse_is_refused_the_same_way_twice(tmp_path: Path) -> None:
    async with open_pool_harness(tmp_path, limits=Limits(start_timeout=0.0001)) as harness:
        for _ in range(2):
            with pytest.raises(ValueError, match="start_timeout"):
                await harness.pool.lease(harness.key())


async def test_e22_a_warm_key_with_a_bad_setting_is_told_and_not_fatal(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    nothing_to_run = WarmKey(TransportKey("acp", "m", str(tmp_path)))
    async with open_pool_harness(tmp_path, warm=(nothing_to_run,)) as harness:
        await harness.settled(lambda: any(record.levelname == "WARNING" for record in caplog.records))
        told = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
        assert len(told) == 1
        assert "cannot keep acp/m" in told[0]
        async with await harness.pool.lease(harness.key()) as lease:
            assert await say(lease, "hello") == "echo: hello"


async def test_w27a_after_a_fallback_a_reload_still_reaches_the_shared_process(tmp_path: Path) -> None:
    flags = ("--fail-first-starts", "1", "--fail-state", str(tmp_path / "starts"))
    async with open_pool_harness(tmp_path, *flags) as harness:
        private = await harness.pool.lease(harness.key())
        shared = await harness.pool.lease(harness.key())
        assert (private.pooled, shared.pooled) == (False, True)
        changed = demo_settings(harness.record, env={"CHANGED": "yes"})
        harness.pool.reload(replace(harness.settings, providers={"demo": changed}), harness.environ)
        async with asyncio.timeout(300):
            await asyncio.gather(shared.wait_moved(), private.wait_moved())
        for lease in (private, shared):
            assert lease.move == "fingerprint"
            lease.release()


async def test_a_reload_changes_the_spares(tmp_path: Path) -> None:
    async with open_pool_harness(tmp_path) as harness:
        await harness.transport()
        harness.pool.reload(replace(harness.settings, spares={"demo": 1}), harness.environ)
        await harness.settled(lambda: len(harness.pool.snapshot().core.spares) == 1)


async def test_the_death_of_a_spare_is_remembered_for_no_key_that_is_forgotten(tmp_path: Path) -> None:
    limits = Limits(forget_after=0.2, sweep_every=0.05)
    async with open_pool_harness(tmp_path, limits=limits, spares={"demo": 1}, watch_every=0.05) as harness:
        snapshot = harness.pool.snapshot
        await harness.pool.learn(harness.key("first"))
        await harness.settled(lambda: len(harness.pids()) == 1)
        spare = harness.pids()
        last = await harness.pool.learn(harness.key("last"))
        await harness.settled(lambda: [pool_key(view.key).key for view in snapshot().core.keys] == [last])
        os.kill(*spare, signal.SIGKILL)
        await harness.settled(lambda: len(harness.pids() - spare) == 1)
        await harness.settled(lambda: not [each.key for each in snapshot().failures if each.key != str(last)])


async def test_e09_a_start_that_cannot_be_put_together_any_more_wedges_nothing(tmp_path: Path) -> None:
    program = tmp_path / "agent"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m ostler.demo "$@"\n')
    program.chmod(0o700)
    agent = replace(demo_settings(tmp_path / "record"), command=(str(program),))
    async with open_pool_harness(tmp_path, limits=ONE, spares={"demo": 1}) as harness:
        harness.pool.reload(replace(harness.settings, providers={"demo": agent}), harness.environ)
        await harness.transport()
        program.unlink()
        # With the place that this frees the core orders the spare that there was no room for.
        harness.pool.kill(harness.pool.snapshot().processes[0].slot)
        await harness.settled(lambda: not harness.pool.snapshot().processes)
        with pytest.raises(PoolError, match=r"no such program|not executable|no program"):
            await harness.transport(deadline=300)
        await harness.settled(lambda: harness.pool.snapshot().core.census.processes == 0)


class Undying(Transport):
    """Ends, but says that something of it did not."""

    def take_ownership(self) -> Callable[[bool], Awaitable[None]]:
        really_end = super().take_ownership()

        async def end(hard: bool) -> None:
            await really_end(hard)
            raise Survivors(str(self.key), [self.pid], 5.0)

        return end


@pytest.mark.parametrize("moment", ["starting", "running"])
async def test_e13_what_cannot_be_ended_does_not_hold_up_the_shutdown(tmp_path: Path, moment: str) -> None:
    supervisor = await ProcessSupervisor.open(tmp_path / "run", "test")
    settings = PoolSettings(providers={"demo": demo_settings(tmp_path / "record")})
    pool = TransportPool(
        settings,
        providers=load(),
        start_transport=partial(Undying.start, supervisor=supervisor, per_home=PerHome()),
        environ={"PATH": os.environ["PATH"], "HOME": str(tmp_path)},
    )
    await pool.start()
    key = TransportKey("demo", "demo", str(tmp_path))
    if moment == "running":
        assert isinstance(await transport_of(pool, key), Undying)
    else:
        pool.warm(key)
        await asyncio.sleep(0)
    async with asyncio.timeout(300):
        await pool.shutdown()
    assert pool.snapshot().processes == ()
    await supervisor.aclose()


async def test_e01_a_process_killed_between_grant_and_return_is_not_handed_out(tmp_path: Path) -> None:
    async with open_pool_harness(tmp_path, "--boot-delay", "0.2") as harness:
        claim = asyncio.create_task(harness.transport())
        while not harness.pool.snapshot().core.leases:  # noqa: ASYNC110 (the very turn of the loop is the point)
            await asyncio.sleep(0)
        assert not claim.done()
        (first,) = harness.pool.snapshot().processes
        harness.pool.kill(first.slot)
        transport = await claim
        assert transport.pid != first.pid
        assert alive(transport.pid)


class Request:
    """Stands for what a request keeps in its context."""


async def test_w11b_the_alarm_clock_keeps_no_request_alive(tmp_path: Path) -> None:
    request: ContextVar[Request] = ContextVar("request")

    async def serve() -> weakref.ref[Request]:
        kept = Request()
        request.set(kept)
        (await harness.pool.lease(harness.key())).release()
        return weakref.ref(kept)

    async with open_pool_harness(tmp_path, limits=Limits(sweep_every=0.05)) as harness:
        kept = await asyncio.create_task(serve())
        await asyncio.sleep(0)  # the turn of the loop that brought the result holds its task
        gc.collect()
        assert kept() is None


async def test_e06_a_foreign_loop_hears_at_once_that_its_seat_is_lost(tmp_path: Path) -> None:
    async with open_pool_harness(tmp_path) as harness:
        lease = await harness.pool.lease(harness.key())
        waiting, foreign = threading.Event(), asyncio.new_event_loop()

        async def elsewhere() -> None:
            told = asyncio.ensure_future(lease.wait_moved())
            await asyncio.sleep(0)
            waiting.set()
            await told  # and nothing else, no timer either, that could wake this loop

        there = asyncio.create_task(asyncio.to_thread(foreign.run_until_complete, elsewhere()))
        await asyncio.to_thread(waiting.wait)
        harness.pool.kill(harness.pool.snapshot().processes[0].slot)
        done, _ = await asyncio.wait([there], timeout=300)
        foreign.call_soon_threadsafe(lease.release)  # wakes it, whether or not it was told
        await there
        foreign.close()
        assert done


async def test_w20_a_lease_that_the_collector_finds_is_released_later_and_on_the_pools_loop(tmp_path: Path) -> None:
    noted: list[tuple[str, int]] = []

    class Watcher(Counts):
        def noted(self, provider: str, what: str, cause: str) -> None:
            noted.append((what, threading.get_ident()))

    async with open_pool_harness(tmp_path, observer=Watcher()) as harness:
        lease = await harness.pool.lease(harness.key())
        before = harness.pool.snapshot().core.census.leased
        holder = [lease]
        del lease
        holder.clear()
        # The collector ran in the midst of this very function, as it may in the midst of the core.
        assert harness.pool.snapshot().core.census.leased == before == 1
        await harness.settled(lambda: harness.pool.snapshot().core.census.leased == 0)
        held = [await harness.pool.lease(harness.key())]
        await asyncio.to_thread(held.clear)
        await harness.settled(lambda: harness.pool.snapshot().core.census.leased == 0)
        threads = [thread for what, thread in noted if what == "dropped_lease"]
        assert threads == [threading.get_ident()] * 2


async def test_e19_a_shared_process_cannot_be_ended_past_its_pool(tmp_path: Path) -> None:
    async with open_pool_harness(tmp_path) as harness:
        lease = await harness.pool.lease(harness.key())
        with pytest.raises(SharedProcess, match="ended by its pool only"):
            await lease.transport.close(hard=True)
        assert await say(lease, "still here") == "echo: still here"
        lease.release()


async def test_f02_what_an_agent_says_of_its_secrets_is_in_no_error_and_no_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("DEBUG")
    secret = "hunter2-hunter2"
    script = f"print('using key {secret}', flush=True)"
    agent = replace(
        demo_settings(tmp_path / "record"), command=(sys.executable, "-c", script), args=(), env={"ITS_API_KEY": secret}
    )
    async with open_pool_harness(tmp_path, fallback=False) as harness:
        harness.pool.reload(replace(harness.settings, providers={"demo": agent}), harness.environ)
        with pytest.raises(AgentStartFailed, match="it said instead") as caught:
            await harness.pool.lease(harness.key())
        assert secret not in str(caught.value)
        assert secret not in str(harness.pool.snapshot().as_json())
    assert not [record.getMessage() for record in caplog.records if secret in record.getMessage()]


async def test_wm2_the_tool_sets_of_single_requests_are_forgotten(tmp_path: Path) -> None:
    rule = ReserveRule(rate_half_life=0.05, keep_seconds=0.1)
    before = living(ToolSet)
    limits = Limits(reserve=rule, sweep_every=0.05)
    async with (
        bridge_in(tmp_path) as bridge,
        open_pool_harness(tmp_path, tool_port=bridge, limits=limits, watch_every=0.05) as harness,
    ):
        for number in range(20):
            (await harness.pool.lease(harness.key(), tools=a_tool(f"tool{number}"))).release()
        await harness.settled(lambda: living(ToolSet) <= before)
        async with await harness.pool.lease(harness.key(), tools=a_tool("tool0")) as lease:
            assert await say(lease, "hello") == "echo: hello"


async def test_wm2_a_failure_that_is_remembered_holds_nothing_of_the_work_that_failed(tmp_path: Path) -> None:
    # An error keeps the frames of its trace, and so the process, the session and the tools that they had to do with.
    unlucky = demo_settings(tmp_path / "record", "--exit-after", "0")
    async with bridge_in(tmp_path) as bridge, open_pool_harness(tmp_path, tool_port=bridge) as harness:
        harness.pool.reload(replace(harness.settings, providers={"demo": unlucky}), harness.environ)
        with pytest.raises(PoolError):
            await harness.pool.lease(harness.key(), tools=a_tool("tool"))
        await harness.settled(lambda: living(LiveSeat) == 0)
        assert harness.pool.snapshot().failures


def a_tool(name: str) -> ToolSet:
    return ToolSet(({"name": name, "inputSchema": {"type": "object"}},))


@pytest.mark.parametrize("how", ["missing", "exits", "refuses"])
async def test_e22_a_warm_up_whose_agent_does_not_start_is_one_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, how: str
) -> None:
    caplog.set_level("INFO")
    agent = {
        "missing": replace(demo_settings(tmp_path / "record"), prefix=("/nowhere/sandbox",)),
        "exits": replace(demo_settings(tmp_path / "record"), command=("false",), args=()),
        "refuses": demo_settings(tmp_path / "record", "--refuse-initialize"),
    }[how]
    counts = Counts()
    limits = Limits(backoff_base=60.0, breaker_cooldown=60.0)
    async with open_pool_harness(tmp_path, limits=limits, observer=counts) as harness:
        harness.pool.reload(replace(harness.settings, providers={"demo": agent}), harness.environ)
        harness.pool.warm(harness.key())
        await harness.settled(lambda: bool(counts.notes["demo", "start_failed", "start_failed"]))
        await harness.settled(lambda: not harness.pool.snapshot().processes)
        told = [record.getMessage() for record in caplog.records if record.levelname in ("WARNING", "ERROR")]
        assert len(told) == 1, told
        assert "start_failed" in told[0]


async def test_e14_after_the_shutdown_every_call_says_so(tmp_path: Path) -> None:
    async with open_pool_harness(tmp_path) as harness:
        key, pool = harness.key(), harness.pool
        await harness.transport(key)
        await pool.shutdown()
        for verb in (pool.warm, pool.pause, pool.resume, pool.drain, pool.reconnect):
            with pytest.raises(PoolClosed):
                verb(key)
        for verb in (pool.recycle, pool.kill):
            with pytest.raises(PoolClosed):
                verb(1)
        with pytest.raises(PoolClosed):
            pool.reload(harness.settings, harness.environ)
        assert pool.snapshot().processes == ()


async def test_w30d_a_runtime_directory_that_was_tidied_away_is_made_again(tmp_path: Path) -> None:
    async with open_pool_harness(tmp_path) as harness:
        shutil.rmtree(tmp_path / "run")
        async with await harness.pool.lease(harness.key()) as lease:
            assert await say(lease, "hello") == "echo: hello"
            (run,) = (tmp_path / "run" / "spawns").iterdir()
            assert [oct(path.stat().st_mode & 0o777) for path in (tmp_path / "run", run)] == ["0o700", "0o700"]
            (record,) = run.iterdir()
            assert f'"pid": {lease.pid}' in record.read_text()


async def test_w28a_a_directory_that_was_removed_is_named_and_costs_nobody_his_agent(tmp_path: Path) -> None:
    async with open_pool_harness(tmp_path) as harness:
        key, gone = harness.key(), harness.key("gone")
        lease = await harness.pool.lease(key)
        for cwd in (key.cwd, gone.cwd):
            os.rmdir(cwd)  # noqa: PTH106 - directories of the test alone, and the loop has nothing else to do
        with pytest.raises(BadDirectory, match="does not exist") as refused:
            await harness.pool.lease(gone)
        assert refused.value.cwd == gone.cwd
        assert await say(lease, "well") == "echo: well"
        lease.release()


@pytest.mark.parametrize("fault", [PermissionError(13, "Permission denied"), RuntimeError("can't start new thread")])
async def test_a_look_that_fails_costs_that_look_alone(tmp_path: Path, fault: Exception) -> None:
    """Every round of the watch looks at the making of a key; what a world out of order raises ends no watch."""
    looks = Looks(fault)
    async with (
        open_pool_harness(tmp_path, traits={"find": looks.find}, watch_every=0.02) as harness,
        await harness.pool.lease(harness.key()) as lease,
    ):
        looks.failing = True
        before = looks.failed
        await harness.settled(lambda: looks.failed > before + 1)
        looks.failing = False
        before = looks.count
        await harness.settled(lambda: looks.count > before + 1)
        assert await say(lease, "well") == "echo: well"


class Looks:
    """Finds the demo agent as it is found, or raises."""

    def __init__(self, fault: Exception) -> None:
        self._fault = fault
        self._find = load()["demo"].find
        self.count = self.failed = 0
        self.failing = False

    def find(self, finder: PathFinder) -> tuple[str, ...]:
        if self.failing:
            self.failed += 1
            raise self._fault
        self.count += 1
        assert self._find is not None
        return self._find(finder)


class Unlabelled(Counts):
    """An observer that raises whenever something is opened or claimed."""

    def claimed(self, key: TransportKey, warmth: str, miss: str, waited: float) -> None:
        raise KeyError(warmth)

    def opened(self, provider: str, outcome: str, seconds: float) -> None:
        raise KeyError(outcome)


async def test_e22_an_observer_that_raises_costs_no_claim_and_leaks_no_lease(tmp_path: Path) -> None:
    async with open_pool_harness(tmp_path, observer=Unlabelled()) as harness:
        async with await harness.pool.lease(harness.key(), deadline=300) as lease:
            assert await say(lease, "well") == "echo: well"
        assert harness.pool.snapshot().core.census.leased == 0


async def test_files_that_cannot_be_read_cost_their_claim_its_patience_and_nobody_else_anything(
    tmp_path: Path,
) -> None:
    finder = StuckFinder()
    try:
        async with (
            open_pool_harness(tmp_path, traits={"find": finder.find}, watch_every=0.02) as harness,
            await harness.pool.lease(harness.key()) as lease,
        ):
            finder.lives.clear()
            with pytest.raises(AgentStartFailed, match="did not answer within"):
                await harness.pool.lease(harness.key("other"), deadline=0.2)
            assert await say(lease, "well") == "echo: well"
            # Neither the claim nor the watch of the files keeps the watch of the memory.
            await harness.settled(lambda: all(process.memory for process in harness.pool.snapshot().processes))
    finally:
        finder.lives.set()


class StuckFinder:
    """Finds the demo agent as soon as its disk answers."""

    def __init__(self) -> None:
        self._find = load()["demo"].find
        self.lives = threading.Event()
        self.lives.set()

    def find(self, finder: PathFinder) -> tuple[str, ...]:
        self.lives.wait(300)
        assert self._find is not None
        return self._find(finder)


async def test_a_key_that_the_pool_holds_is_told_of_without_a_look_at_its_disk(tmp_path: Path) -> None:
    async with open_pool_harness(tmp_path) as harness:
        key = harness.key()
        async with await harness.pool.lease(key):
            os.rmdir(key.cwd)  # noqa: PTH106 - a directory of the test alone, and the loop has nothing else to do
            assert harness.pool.why(key).cwd == key.cwd


async def test_w23e_a_disk_that_was_full_keeps_nobody_out_once_it_has_room(tmp_path: Path) -> None:
    disk = tmp_path / "disk"
    disk.mkdir()
    with small_disk(disk, "1m") as mounted:
        if not mounted:
            pytest.skip("this machine does not let us mount a disk to be filled")
        counts = Counts()
        async with open_pool_harness(disk, limits=Limits(backoff_base=0.01), observer=counts) as harness:
            others = [harness.key(name) for name in "abcdef"]
            with filled(disk):
                for _ in range(SHORT_OF_ROOM):
                    with pytest.raises(AgentStartFailed, match="No space left") as caught:
                        await harness.pool.lease(harness.key())
                    assert caught.value.shortage
                assert counts.notes["demo", "start_failed", "start_failed"] == SHORT_OF_ROOM, "one for each that asks"
                ends = await asyncio.gather(*map(harness.pool.lease, others), return_exceptions=True)
            assert all(isinstance(end, AgentStartFailed | BreakerOpen) for end in ends), ends
            assert all("No space left" in str(end) for end in ends), ends
            assert not [note for note in counts.notes if note[1] == "fallback"]
            async with await harness.pool.lease(harness.key()) as lease:
                assert await say(lease, "hello") == "echo: hello"
