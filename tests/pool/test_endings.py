"""How a pool ends its agents: the closes that are due, then EOF, then time; signals are for those that ignore it.

Several agents write a session to disk only when it is closed or when they end by themselves.
"""

import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ostler.bridge.server import Bridge
from ostler.bridge.settings import BridgeSettings
from ostler.pool import Limits, ToolSet
from ostler.pool.agent.transport import Transport
from ostler.pool.errors import AgentStartFailed, Phase
from ostler.pool.launch.settings import Deadlines
from ostler.pool.provider import NEVER, CloseVerb, Sharing
from ostler.process import Ending, Exit
from tests.support.counts import Counts
from tests.support.pools import PoolHarness, demo_settings, open_pool_harness, say

TOOLS = ToolSet(({"name": "whoami", "description": "says whose call this is", "inputSchema": {"type": "object"}},))
ONE = Limits(max_processes=1, max_processes_per_key=1)
ALONE = {"close": CloseVerb.KILL, "load": NEVER, "sharing": Sharing.NONE, "seats_per_process": 1}
MAKES_SESSIONS_ONLY = """
import json, sys
for line in sys.stdin:
    frame = json.loads(line)
    said = {"protocolVersion": 1, "agentCapabilities": {}, "sessionId": "s1"}
    print(json.dumps({"jsonrpc": "2.0", "id": frame["id"], "result": said}), flush=True)
"""


@asynccontextmanager
async def bridge_in(folder: Path) -> AsyncIterator[Bridge]:
    """A bridge to whose relays nobody comes."""
    bridge = Bridge(BridgeSettings(data_directory=folder))
    await bridge.start()
    try:
        yield bridge
    finally:
        await bridge.stop()


async def exit_of(transport: Transport) -> Exit:
    """How its process ended."""
    await transport.wait_lost()
    ended = transport.connection.process.exit
    assert ended is not None
    return ended


async def left(harness: PoolHarness, transport: Transport) -> None:
    """Wait until it is out of the books."""
    await harness.settled(lambda: transport.pid not in harness.pids())


def record(harness: PoolHarness, pid: int, event: str) -> list[dict[str, Any]]:
    """What an agent wrote down of one kind."""
    lines = [json.loads(line) for line in harness.record.read_text().splitlines()]
    return [line for line in lines if line["pid"] == pid and line["event"] == event]


def sessions(harness: PoolHarness, pid: int, method: str) -> set[str]:
    """Of which sessions an agent was asked this."""
    frames = [line["frame"] for line in record(harness, pid, "in")]
    return {frame["params"]["sessionId"] for frame in frames if frame.get("method") == method}


async def require_polite(harness: PoolHarness, transport: Transport, *, spoken: int) -> None:
    """It heard the close of as many sessions that had a turn, then EOF, and left by itself."""
    ended = await exit_of(transport)
    assert (ended.ending, ended.code, ended.signal) == (Ending.ON_EOF, 0, None)
    assert [line["reason"] for line in record(harness, ended.pid, "end")] == ["stdin ended"]
    closed = sessions(harness, ended.pid, "session/close")
    assert len(closed & sessions(harness, ended.pid, "session/prompt")) == spoken


async def test_f05_a_drained_agent_is_told_the_last_close_and_ends_by_itself(tmp_path: Path) -> None:
    async with open_pool_harness(tmp_path) as harness:
        lease = await harness.pool.lease(harness.key())
        assert await say(lease, "hello") == "echo: hello"
        transport = lease.transport
        harness.pool.drain(harness.key())
        lease.release()
        await require_polite(harness, transport, spoken=1)


async def test_f05_an_agent_that_is_recycled_for_its_sessions_ends_by_itself(tmp_path: Path) -> None:
    async with open_pool_harness(tmp_path, traits={"recycle_after": 2}) as harness:
        first = await harness.pool.lease(harness.key())
        transport = first.transport
        async with await harness.pool.lease(harness.key()) as second:
            await say(second, "hello")
        await say(first, "hello")
        first.release()
        await require_polite(harness, transport, spoken=2)


async def test_f05_a_cooled_agent_with_parked_seats_ends_by_itself(tmp_path: Path) -> None:
    async with open_pool_harness(tmp_path) as harness:
        transport = await harness.transport()
        harness.pool.warm(harness.key(), seats=2)
        await harness.settled(lambda: harness.pool.snapshot().core.census.parked == 2)
        harness.pool.cool(harness.key())
        await require_polite(harness, transport, spoken=0)
        assert len(sessions(harness, transport.pid, "session/close")) == 1 + 2


async def test_e13_the_agents_of_a_pool_that_shuts_down_end_by_themselves(tmp_path: Path) -> None:
    async with open_pool_harness(tmp_path) as harness:
        held, released = [await harness.pool.lease(harness.key()) for _ in range(2)]
        for lease in (held, released):
            await say(lease, "hello")
        transport = held.transport
        released.release()
    await require_polite(harness, transport, spoken=1)


async def test_e13_a_shutdown_in_the_middle_of_a_drain_leaves_the_agent_its_grace(tmp_path: Path) -> None:
    async with open_pool_harness(tmp_path) as harness:
        lease = await harness.pool.lease(harness.key())
        await say(lease, "hello")
        transport = lease.transport
        harness.pool.drain(harness.key())
        lease.release()
    await require_polite(harness, transport, spoken=1)


async def test_f05_an_agent_whose_sessions_end_with_it_is_not_killed(tmp_path: Path) -> None:
    counts = Counts()
    async with open_pool_harness(tmp_path, traits=ALONE, limits=ONE, observer=counts) as harness:
        for _ in range(2):
            lease = await harness.pool.lease(harness.key())
            await say(lease, "hello")
            transport = lease.transport
            lease.release()
            await require_polite(harness, transport, spoken=0)
            await left(harness, transport)
        assert harness.pool.snapshot().failures == ()
    assert counts.notes["demo", "slot_died", "died"] == 0
    assert counts.notes["demo", "retired", "used_up"] == 2


async def test_an_agent_that_ended_with_a_failed_open_is_a_start_that_failed(tmp_path: Path) -> None:
    counts = Counts()
    agent = replace(
        demo_settings(tmp_path / "record", deadlines=Deadlines(tools=0.2)),
        command=(sys.executable, "-c", MAKES_SESSIONS_ONLY),
        args=(),
    )
    async with (
        bridge_in(tmp_path) as bridge,
        open_pool_harness(tmp_path, traits=ALONE, observer=counts, tool_port=bridge) as harness,
    ):
        harness.pool.reload(replace(harness.settings, providers={"demo": agent}, fallback=False), harness.environ)
        with pytest.raises(AgentStartFailed, match="did not connect to its tools") as failed:
            await harness.pool.lease(harness.key(), tools=TOOLS, deadline=300)
        assert failed.value.phase is Phase.TOOLS
        harness.pool.cool(harness.key())
        await harness.settled(lambda: not harness.pool.snapshot().processes)
        (failure,) = harness.pool.snapshot().failures
        assert (failure.kind, "did not connect" in failure.text) == ("AgentStartFailed", True)
    assert counts.notes["demo", "start_failed", "died"] >= 1


async def test_an_agent_that_crashes_while_it_is_ended_leaves_no_slot(tmp_path: Path) -> None:
    counts = Counts()
    async with open_pool_harness(tmp_path, "--ignore-eof", traits=ALONE, limits=ONE, observer=counts) as harness:
        lease = await harness.pool.lease(harness.key())
        transport = lease.transport
        lease.release()
        await harness.settled(lambda: transport.closing)
        os.kill(transport.pid, signal.SIGSEGV)
        await left(harness, transport)
        assert (await exit_of(transport)).signal == signal.SIGSEGV
        assert harness.pool.snapshot().failures == ()


async def test_an_agent_that_crashes_under_its_session_has_died(tmp_path: Path) -> None:
    counts = Counts()
    async with open_pool_harness(tmp_path, traits=ALONE, limits=ONE, observer=counts) as harness:
        lease = await harness.pool.lease(harness.key())
        transport = lease.transport
        os.kill(lease.pid, signal.SIGSEGV)
        await left(harness, transport)
        lease.release()
        assert [failure.kind for failure in harness.pool.snapshot().failures] == ["TransportLost"]
    assert counts.notes["demo", "slot_died", "died"] == 1


@pytest.mark.parametrize(
    ("flags", "ending"),
    [(("--ignore-eof",), Ending.ON_TERMINATE), (("--ignore-eof", "--ignore-term"), Ending.ON_KILL)],
)
async def test_e13_an_agent_that_ignores_the_eof_is_signalled(
    tmp_path: Path, flags: tuple[str, ...], ending: Ending
) -> None:
    async with open_pool_harness(tmp_path, *flags) as harness:
        lease = await harness.pool.lease(harness.key())
        transport = lease.transport
        harness.pool.drain(harness.key())
        lease.release()
        assert (await exit_of(transport)).ending is ending
