"""The other ways to a session's tools, end to end: a real agent process, the real pool, the real bridge.

Whatever the channel, it ends in the same binding: the same isolation, the same ends, the same refusals.
"""

import asyncio
import json
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from ostler.bridge.calls import CallResult, ToolCall
from ostler.bridge.channels.http import HttpChannel
from ostler.bridge.channels.http_app import HttpSettings
from ostler.bridge.server import Bridge
from ostler.bridge.settings import BridgeSettings
from ostler.pool import Lease, PoolError, PoolSettings, ProviderSettings, ToolSet, TransportPool, WarmKey, open_pool
from ostler.pool.errors import ToolChannelMissing
from ostler.pool.keys import TransportKey
from ostler.pool.provider import ToolChannel
from tests.support.acp_oracle import check_agent_frame, check_client_frame
from tests.support.http_tools import INITIALIZE, bare
from tests.support.pools import PoolHarness, below, open_pool_harness, say
from tests.support.relays import Held

WHOAMI = {"name": "whoami", "description": "says whose call this is", "inputSchema": {"type": "object"}}
SECRET = {"name": "secret", "description": "keeps a word", "inputSchema": {"type": "object"}}
TOOLS = ToolSet((WHOAMI,))
CHANNELS = (ToolChannel.HTTP, ToolChannel.ACP)


async def whoami(call: ToolCall) -> CallResult:
    call.progress(1, 2)
    return CallResult.text(f"{call.name} of {call.context}")


@asynccontextmanager
async def house(
    folder: Path, channel: ToolChannel, *flags: str, http: bool = True, **settings: Any
) -> AsyncIterator[tuple[PoolHarness, Bridge]]:
    flags = flags or (f"--mcp-{channel.value}",)
    door = HttpChannel(HttpSettings(enabled=True))
    bridge = Bridge(BridgeSettings(data_directory=folder), http=door)
    await bridge.start()
    if http:
        await door.start()
    try:
        async with open_pool_harness(folder, *flags, tool_port=bridge, tool_channel=channel, **settings) as harness:
            yield harness, bridge
    finally:
        await bridge.stop()
        await door.stop()


@pytest.fixture(params=CHANNELS)
def channel(request: pytest.FixtureRequest) -> ToolChannel:
    kind: ToolChannel = request.param
    return kind


def publish(lease: Lease, who: str, *definitions: dict[str, Any], dispatcher: Any = whoami) -> None:
    ticket = lease.ticket
    assert ticket is not None
    ticket.publish(definitions or TOOLS.definitions, dispatcher, who)  # type: ignore[attr-defined] - the bridge's can


def frames(harness: PoolHarness, event: str) -> list[dict[str, Any]]:
    """What the agents have recorded."""
    lines = [json.loads(line) for line in harness.record.read_text().splitlines()]
    return [line["frame"] for line in lines if line["event"] == event and "frame" in line]


def servers(harness: PoolHarness) -> list[dict[str, Any]]:
    """How the agents were told of tool servers."""
    opened = [frame for frame in frames(harness, "in") if frame.get("method") == "session/new"]
    return [server for frame in opened for server in frame["params"]["mcpServers"]]


async def test_f04_f05_two_sessions_list_and_call_their_own(tmp_path: Path, channel: ToolChannel) -> None:
    async with house(tmp_path, channel) as (harness, bridge):
        a = await harness.pool.lease(harness.key(), tools=TOOLS)
        b = await harness.pool.lease(harness.key(), tools=ToolSet((WHOAMI, SECRET)))
        publish(a, "a")
        publish(b, "b", WHOAMI, SECRET)
        assert await say(a, "!tools") == "whoami"
        assert await say(b, "!tools") == "secret\nwhoami"
        calls = "\n".join(["!call whoami {}"] * 100)
        answers = await asyncio.gather(say(a, calls), say(b, calls))
        assert [set(answer.splitlines()) for answer in answers] == [{"whoami of a"}, {"whoami of b"}]
        assert (await say(a, "!call secret {}")).startswith("error:")
        assert len(harness.starts()) == 1
        assert (harness.relays(), bridge.stats.connected) == ([], 0)


async def test_f02_a_secret_is_told_once_and_stands_in_no_argv(tmp_path: Path, channel: ToolChannel) -> None:
    async with house(tmp_path, channel) as (harness, _):
        a, b = [await harness.pool.lease(harness.key(), tools=TOOLS) for _ in range(2)]
        assert a.ticket is not None
        assert b.ticket is not None
        told = servers(harness)
        assert {server["type"] for server in told} == {channel.value}
        secrets = {server.get("serverId") or server["headers"][0]["value"].split()[1] for server in told}
        assert len(secrets) == len(told) >= 2
        assert not any(ticket.token in json.dumps(told) for ticket in (a.ticket, b.ticket))
        argv = [word for process in harness.tree() for word in process.cmdline()]
        assert not any(secret in word for secret in secrets for word in argv)
        assert [below(pid) for pid in harness.pids()] == [[]]


async def test_f03_a_changed_list_is_told_to_its_own_session(tmp_path: Path, channel: ToolChannel) -> None:
    async with house(tmp_path, channel) as (harness, _):
        a, b = [await harness.pool.lease(harness.key(), tools=TOOLS) for _ in range(2)]
        publish(a, "a")
        publish(b, "b")
        publish(a, "a", WHOAMI, SECRET)
        await harness.settled(lambda: '"tools": ["secret", "whoami"]' in harness.record.read_text())
        assert await say(a, "!tools\n!call secret {}") == "secret\nwhoami\nsecret of a"
        assert await say(b, "!tools") == "whoami"


async def test_what_is_said_over_the_pipe_is_what_the_draft_has(tmp_path: Path) -> None:
    async with house(tmp_path, ToolChannel.ACP) as (harness, _):
        lease = await harness.pool.lease(harness.key(), tools=TOOLS)
        publish(lease, "me")
        publish(lease, "me", WHOAMI, SECRET)
        await harness.settled(lambda: '"tools": ["secret", "whoami"]' in harness.record.read_text())
        assert await say(lease, "!call whoami {}") == "whoami of me"
        said, told = ([each for each in frames(harness, way) if "method" in each] for way in ("out", "in"))
        for frame in said:
            check_agent_frame(frame, {})
        for frame in told:
            check_client_frame(frame)
        assert {"mcp/connect", "mcp/message"} <= {frame["method"] for frame in said}
        news = [frame["params"]["method"] for frame in told if frame["method"] == "mcp/message"]
        assert "notifications/tools/list_changed" in news


async def test_f07_a_running_call_ends_where_it_began(tmp_path: Path, channel: ToolChannel) -> None:
    async with house(tmp_path, channel) as (harness, _):
        lease, held = await harness.pool.lease(harness.key(), tools=TOOLS), Held("old")
        publish(lease, "me", dispatcher=held)
        turn = asyncio.create_task(say(lease, "!call whoami {}\n!call whoami {}"))
        await held.begun.acquire()
        publish(lease, "me again")
        held.release.set()
        assert await turn == "old:me\nwhoami of me again"


async def test_a_cancelled_turn_stops_its_call(tmp_path: Path, channel: ToolChannel) -> None:
    async with house(tmp_path, channel) as (harness, _):
        lease, held = await harness.pool.lease(harness.key(), tools=TOOLS), Held("mine")
        publish(lease, "me", dispatcher=held)
        turn = await lease.prompt("!call whoami {}")
        await held.begun.acquire()
        turn.cancel()
        await turn.ended()
        await harness.settled(lambda: held.cancelled == 1)
        publish(lease, "me")
        assert await say(lease, "!call whoami {}") == "whoami of me"


async def test_f08_revoking_one_leaves_the_other(tmp_path: Path, channel: ToolChannel) -> None:
    async with house(tmp_path, channel) as (harness, _):
        a, b = [await harness.pool.lease(harness.key(), tools=TOOLS) for _ in range(2)]
        publish(a, "a")
        publish(b, "b")
        assert a.ticket is not None
        a.ticket.revoke()
        assert "error:" in await say(a, "!call whoami {}")
        assert await say(b, "!call whoami {}") == "whoami of b"


async def test_f20_release_takes_its_own_and_nothing_else(tmp_path: Path, channel: ToolChannel) -> None:
    async with house(tmp_path, channel) as (harness, _):
        a, b = [await harness.pool.lease(harness.key(), tools=TOOLS) for _ in range(2)]
        publish(a, "a")
        publish(b, "b")
        ticket = a.ticket
        assert ticket is not None
        a.release()
        await harness.settled(lambda: ticket.definitions == ())
        assert await say(b, "!call whoami {}") == "whoami of b"


async def test_a_parked_seat_is_claimed_with_its_tools_attached(tmp_path: Path, channel: ToolChannel) -> None:
    key = TransportKey("demo", "demo", str(tmp_path))
    async with house(tmp_path, channel, warm=(WarmKey(key, TOOLS, 2),)) as (harness, _):
        await harness.settled(lambda: harness.pool.snapshot().core.census.parked >= 2)
        lease = await harness.pool.lease(key, tools=TOOLS)
        assert (lease.warmth, lease.waited.session_new) == ("parked", 0)
        publish(lease, "me")
        assert await say(lease, "!call whoami {}") == "whoami of me"


async def test_f09_f10_http_tokens_open_what_they_were_made_for_and_die_with_it(tmp_path: Path) -> None:
    async with house(tmp_path, ToolChannel.HTTP) as (harness, _):
        a, b = [await harness.pool.lease(harness.key(), tools=TOOLS) for _ in range(2)]
        publish(a, "a")
        publish(b, "b")
        assert a.ticket is not None
        assert b.ticket is not None
        mine, other = a.ticket.http(), b.ticket.http()
        assert mine is not None
        assert other is not None
        assert a.ticket.http() is mine
        assert mine.headers != other.headers
        async with bare(other) as theirs:
            session = (await theirs.post(other.url, json=INITIALIZE)).headers["mcp-session-id"]
        call = {"jsonrpc": "2.0", "id": 7, "method": "tools/call", "params": {"name": "whoami", "arguments": {}}}
        async with bare(mine) as client:
            # A session of B's is none under A's token.
            assert (await client.post(mine.url, json=call, headers={"mcp-session-id": session})).status_code == 404
        a.ticket.revoke()
        refused = []
        for value in (mine.headers["Authorization"], f"Bearer {a.ticket.token}", f"Bearer {'0' * 32}", "Bearer"):
            async with bare(mine, {"Authorization": value}) as client:
                answer = await client.post(mine.url, json=INITIALIZE)
                refused.append((answer.status_code, answer.content))
        assert len(set(refused)) == 1
        assert refused[0][0] == 401
        assert await say(b, "!call whoami {}") == "whoami of b"


THIEF = """
import json, sys
told, opening = [], None
def say(**frame): print(json.dumps({"jsonrpc": "2.0", **frame}), flush=True)
def answer(frame, **result): say(id=frame["id"], result=result)
def message(number, connection, method, **params):
    say(id=number, method="mcp/message", params={"connectionId": connection, "method": method, "params": params})
for line in sys.stdin:
    frame = json.loads(line)
    method = frame.get("method")
    if method == "initialize":
        answer(frame, protocolVersion=1, agentInfo={"name": "thief", "version": "1"},
               agentCapabilities={"mcpCapabilities": {"acp": True}})
    elif method == "session/new":
        opening = frame
        for number, server in enumerate(sys.argv[1:]):
            say(id=f"connect {number}", method="mcp/connect", params={"serverId": server})
        message("message", "0" * 32, "tools/list")
        say(id="disconnect", method="mcp/disconnect", params={"connectionId": "0" * 32})
        say(id="own", method="mcp/connect", params={"serverId": frame["params"]["mcpServers"][0]["serverId"]})
    elif method == "session/prompt":
        text = {"type": "text", "text": json.dumps(told)}
        update = {"sessionUpdate": "agent_message_chunk", "content": text}
        say(method="session/update", params={"sessionId": "s", "update": update})
        answer(frame, stopReason="end_turn")
    elif method == "session/close":
        answer(frame)
    elif "error" in frame:
        told.append([frame["id"], frame["error"]])
    elif frame["id"] == "own":
        message("list", frame["result"]["connectionId"], "tools/list")
    elif frame["id"] == "list":
        told.append(["list", frame["result"]["tools"]])
        answer(opening, sessionId="s")
"""


async def test_f09_ids_of_another_process_and_unknown_ones_are_one_refusal(tmp_path: Path) -> None:
    async with house(tmp_path, ToolChannel.ACP) as (harness, bridge):
        lease = await harness.pool.lease(harness.key(), tools=TOOLS)
        publish(lease, "me")
        async with thieves(tmp_path, bridge, servers(harness)[0]["serverId"], "0" * 32) as pool:
            thief = await pool.lease(TransportKey("acp", "default", str(tmp_path)), tools=ToolSet((SECRET,)))
            told = dict(json.loads(await say(thief, "what were you told?")))
        assert told.pop("list") == [SECRET]
        assert sorted(told) == ["connect 0", "connect 1", "disconnect", "message"]
        refusal = {"code": -32010, "message": "this tool connection is not bound to a session"}
        assert all(each == refusal for each in told.values())
        assert await say(lease, "!call whoami {}") == "whoami of me"


@asynccontextmanager
async def thieves(folder: Path, bridge: Bridge, *stolen: str) -> AsyncIterator[TransportPool]:
    """A pool of agents that try ids that are not their own, and one that is."""
    script = folder / "thief.py"
    script.write_text(THIEF)
    command = (sys.executable, str(script))
    settings = ProviderSettings(command=command, args=stolen, tool_channel=ToolChannel.ACP)
    places = PoolSettings(providers={"acp": settings})
    async with open_pool(places, runtime_dir=folder / "thief", tool_port=bridge) as pool:
        yield pool


async def test_an_agent_without_the_channel_is_named_when_a_seat_opens(tmp_path: Path, channel: ToolChannel) -> None:
    async with house(tmp_path, channel, "--no-list-changed") as (harness, _):
        with pytest.raises(PoolError) as caught:
            await harness.pool.lease(harness.key(), tools=TOOLS)
        error = missing(caught.value)
        assert (error.provider, error.channel) == ("demo", channel.value)
        assert "ostler-demo" in error.why
        # Without tools there is nothing to offer, and nothing amiss.
        assert await say(await harness.pool.lease(harness.key()), "well") == "echo: well"


async def test_a_gateway_without_the_http_channel_says_so(tmp_path: Path) -> None:
    async with house(tmp_path, ToolChannel.HTTP, http=False) as (harness, _):
        with pytest.raises(PoolError) as caught:
            await harness.pool.lease(harness.key(), tools=TOOLS)
        assert "runs no HTTP tool channel" in missing(caught.value).why


def missing(error: BaseException | None) -> ToolChannelMissing:
    while error is not None and not isinstance(error, ToolChannelMissing):
        error = error.__cause__
    assert isinstance(error, ToolChannelMissing)
    return error
