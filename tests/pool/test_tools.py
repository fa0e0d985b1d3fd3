"""Pool and bridge together, introduced the way the gateway does it: tools of many sessions on one real process."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from ostler.bridge.calls import CallResult, ToolCall
from ostler.bridge.server import Bridge
from ostler.bridge.settings import BridgeSettings
from ostler.pool import Lease, ToolSet, WarmKey
from ostler.pool.keys import TransportKey
from tests.support.pools import PoolHarness, open_pool_harness, say

WHOAMI = {"name": "whoami", "description": "says whose call this is", "inputSchema": {"type": "object"}}
SECRET = {"name": "secret", "description": "keeps a word", "inputSchema": {"type": "object"}}
TOOLS = ToolSet((WHOAMI,))


async def whoami(call: ToolCall) -> CallResult:
    return CallResult.text(f"{call.name} of {call.context}")


@asynccontextmanager
async def house(folder: Path, *flags: str, **settings: Any) -> AsyncIterator[tuple[PoolHarness, Bridge]]:
    # The bridge by itself would let relays linger for ever: who ends them here is the pool.
    bridge = Bridge(BridgeSettings(data_directory=folder, farewell_after=3600.0))
    await bridge.start()
    try:
        async with open_pool_harness(folder, *flags, tool_port=bridge, **settings) as harness:
            yield harness, bridge
    finally:
        await bridge.stop()


def publish(lease: Lease, who: str, *definitions: dict[str, Any]) -> None:
    ticket = lease.ticket
    assert ticket is not None
    ticket.publish(definitions or TOOLS.definitions, whoami, who)  # type: ignore[attr-defined] - the bridge's ticket can


async def test_w02_two_sessions_of_one_process_have_their_own_tools(tmp_path: Path) -> None:
    async with house(tmp_path) as (harness, _):
        key = harness.key()
        a = await harness.pool.lease(key, tools=TOOLS)
        b = await harness.pool.lease(key, tools=ToolSet((WHOAMI, SECRET)))
        publish(a, "a")
        publish(b, "b", WHOAMI, SECRET)
        assert await say(a, "!tools") == "whoami"
        assert await say(b, "!tools") == "secret\nwhoami"
        calls = "\n".join(["!call whoami {}"] * 50)
        answers = await asyncio.gather(say(a, calls), say(b, calls))
        assert [set(answer.splitlines()) for answer in answers] == [{"whoami of a"}, {"whoami of b"}]
        assert (await say(a, "!call secret {}")).startswith("error:")
        assert len(harness.starts()) == 1


async def test_f02_the_token_is_in_the_relays_environment_and_nowhere_else(tmp_path: Path) -> None:
    async with house(tmp_path) as (harness, _):
        lease = await harness.pool.lease(harness.key(), tools=TOOLS)
        assert lease.ticket is not None
        token = lease.ticket.token
        frames = [json.loads(line) for line in harness.record.read_text().splitlines()]
        assert token in json.dumps(frames)
        argvs = [" ".join(process.cmdline()) for process in harness.tree()]
        assert any("relay" in argv for argv in argvs)
        assert all(token not in argv for argv in argvs)


async def test_a_parked_seat_is_claimed_with_its_tools_attached(tmp_path: Path) -> None:
    key = TransportKey("demo", "demo", str(tmp_path))
    async with house(tmp_path, warm=(WarmKey(key, TOOLS, 2),)) as (harness, bridge):
        await harness.settled(lambda: harness.pool.snapshot().core.census.parked >= 2)
        assert bridge.stats.connected == 2
        lease = await harness.pool.lease(key, tools=TOOLS)
        assert (lease.warmth, lease.miss) == ("parked", "none")
        assert lease.waited.spawn == lease.waited.session_new == 0
        publish(lease, "me")
        assert await say(lease, "!call whoami {}") == "whoami of me"


async def test_f20_release_revokes_the_token_and_closes_the_session(tmp_path: Path) -> None:
    async with house(tmp_path) as (harness, bridge):
        lease = await harness.pool.lease(harness.key(), tools=TOOLS)
        publish(lease, "me")
        other = await harness.pool.lease(harness.key(), tools=TOOLS)
        publish(other, "other")
        ticket, before = lease.ticket, set(harness.relays())
        assert ticket is not None
        lease.release()
        lease.release()
        await harness.settled(lambda: ticket.definitions == ())
        assert await say(other, "!call whoami {}") == "whoami of other"
        other.release()
        await harness.settled(lambda: len(before - set(harness.relays())) == 2)
        await harness.settled(lambda: bridge.stats.connected == len(harness.relays()))


async def test_m07_a_parked_seat_whose_relay_died_is_never_handed_out(tmp_path: Path) -> None:
    key = TransportKey("demo", "demo", str(tmp_path))
    async with house(tmp_path, warm=(WarmKey(key, TOOLS, 1),)) as (harness, _):
        await harness.settled(lambda: harness.pool.snapshot().core.census.parked == 1)
        (relay,) = harness.relays()
        relay.kill()
        await harness.settled(lambda: harness.pool.snapshot().core.census.parked == 0)
        lease = await harness.pool.lease(key, tools=TOOLS)
        publish(lease, "me")
        assert await say(lease, "!call whoami {}") == "whoami of me"


async def test_m09_the_relay_of_an_agent_that_cannot_end_a_session_is_sent_home(tmp_path: Path) -> None:
    async with house(tmp_path, recycle_after=100) as (harness, bridge):
        kept = await harness.pool.lease(harness.key(), tools=TOOLS)
        publish(kept, "kept")
        for number in range(3):
            async with await harness.pool.lease(harness.key(), tools=TOOLS) as lease:
                publish(lease, f"gone-{number}")
                assert await say(lease, "!call whoami {}") == f"whoami of gone-{number}"
        harness.pool.pause(harness.key())

        def only_those_in_use() -> bool:
            census = harness.pool.snapshot().core.census
            return len(harness.relays()) == bridge.stats.connected == census.leased + census.parked

        await harness.settled(only_those_in_use)
        assert await say(kept, "!call whoami {}") == "whoami of kept"
        kept.release()
