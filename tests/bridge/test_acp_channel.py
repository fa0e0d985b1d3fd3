"""MCP over ACP: the channel, with the official schema as the judge of what it says."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from ostler.bridge.calls import CallResult, ToolCall
from ostler.bridge.channels.acp import ASKED_LIMIT, CONNECTION_LIMIT, AcpChannel
from ostler.bridge.errors import BindingRevoked
from ostler.bridge.server import Bridge
from ostler.wire.rpc import RpcFault
from tests.support.http_tools import running_channel
from tests.support.relays import Echo, Held, running_bridge, tool

ECHO = [tool("echo", text={"type": "string"})]


def official(model: str, value: object) -> Any:
    """A value as the official schema reads it."""
    from acp import schema

    return getattr(schema, model).model_validate(value)


class Agent:
    """The agent's end of one process."""

    def __init__(self) -> None:
        self.told: list[tuple[str, dict[str, Any]]] = []
        self.channel = AcpChannel(lambda method, params: self.told.append((method, params)))
        self._id = 0

    def ask(self, method: str, /, **params: Any) -> asyncio.Future[Any]:
        self._id += 1
        answered: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self.channel.request(self._id, method, params, answered.set_result)
        return answered

    async def connect(self, server: str) -> str:
        answer = official("ConnectMcpResponse", await self.ask("mcp/connect", serverId=server))
        return str(answer.connection_id)

    def message(self, connection: str, method: str, /, **params: Any) -> asyncio.Future[Any]:
        return self.ask("mcp/message", connectionId=connection, method=method, params=params)

    async def ready(self, server: str) -> str:
        connection = await self.connect(server)
        await self.message(connection, "initialize", protocolVersion="2025-06-18")
        self.channel.notice("mcp/message", {"connectionId": connection, "method": "notifications/initialized"})
        return connection

    def call(self, connection: str, **params: Any) -> asyncio.Future[Any]:
        return self.message(connection, "tools/call", name="echo", **params)


@pytest.fixture
async def bridge(tmp_path: Path) -> AsyncIterator[Bridge]:
    async with running_bridge(tmp_path) as running:
        yield running


def declared(agent: Agent, binding: Any) -> str:
    return str(official("AcpMcpServer", agent.channel.declare(binding)).server_id)


async def test_f05_sessions_of_one_process_reach_their_own_tools(bridge: Bridge) -> None:
    agent = Agent()
    bindings = [bridge.open(ECHO) for _ in range(2)]
    for mark, binding in zip("AB", bindings, strict=True):
        bridge.publish(binding, ECHO, Echo(mark), f"session-{mark}")
    a, b = [await agent.ready(declared(agent, binding)) for binding in bindings]
    assert (await agent.message(a, "tools/list"))["tools"] == ECHO
    await bindings[0].attached()
    answers = await asyncio.gather(*(agent.call(each, arguments={"text": "x"}) for _ in range(20) for each in (a, b)))
    said = [answer["content"][0]["text"] for answer in answers]
    assert said == ["A:session-A:x", "B:session-B:x"] * 20


async def test_progress_and_news_leave_as_messages_of_their_connection(bridge: Bridge) -> None:
    async def reporting(call: ToolCall) -> CallResult:
        call.progress(1, 2)
        return CallResult.text("done")

    agent, binding = Agent(), bridge.open(ECHO)
    bridge.publish(binding, ECHO, reporting)
    connection = await agent.ready(declared(agent, binding))
    await agent.call(connection, _meta={"progressToken": "p"})
    bridge.publish(binding, [*ECHO, tool("more")], reporting)
    said = [official("MessageMcpNotification", params) for method, params in agent.told if method == "mcp/message"]
    assert [each.method for each in said] == ["notifications/progress", "notifications/tools/list_changed"]
    assert {each.connection_id for each in said} == {connection}


async def test_f09_unknown_foreign_closed_and_revoked_are_one_answer(bridge: Bridge) -> None:
    agent, other = Agent(), Agent()
    binding, revoked = bridge.open(ECHO), bridge.open(ECHO)
    server, dead = declared(agent, binding), declared(agent, revoked)
    gone, closed = await agent.ready(dead), await agent.ready(server)
    revoked.revoke()
    official("DisconnectMcpResponse", await agent.ask("mcp/disconnect", connectionId=closed))
    alive = await agent.ready(server)
    answers = [
        await agent.ask("mcp/connect", serverId="0" * 32),
        await agent.ask("mcp/connect"),
        await agent.ask("mcp/connect", serverId=dead),
        await other.ask("mcp/connect", serverId=server),
        await agent.call(gone),
        await agent.call(closed),
        await other.call(alive),
        await agent.ask("mcp/disconnect", connectionId=gone),
    ]
    assert {repr(each) for each in answers} == {
        repr(RpcFault(-32010, "this tool connection is not bound to a session"))
    }
    assert (await agent.call(alive)).code == -32011


async def test_a_cancelled_call_is_stopped(bridge: Bridge) -> None:
    agent, binding, held = Agent(), bridge.open(ECHO), Held("A")
    bridge.publish(binding, ECHO, held)
    connection = await agent.ready(declared(agent, binding))
    asked = agent.call(connection)
    await held.begun.acquire()
    cancelled = {"connectionId": connection, "method": "notifications/cancelled", "params": {"requestId": agent._id}}
    agent.channel.notice("mcp/message", cancelled)
    assert (await asked).code == -32800
    await asyncio.sleep(0)
    assert held.cancelled == 1


async def test_f08_revoking_answers_what_was_asked(bridge: Bridge) -> None:
    agent, binding, held = Agent(), bridge.open(ECHO), Held("A")
    bridge.publish(binding, ECHO, held)
    connection = await agent.ready(declared(agent, binding))
    asked = agent.call(connection)
    await held.begun.acquire()
    binding.revoke()
    assert (await asked).code == -32012


async def test_when_the_process_is_gone_its_calls_are_stopped(bridge: Bridge) -> None:
    agent, binding, held = Agent(), bridge.open(ECHO), Held("A")
    bridge.publish(binding, ECHO, held)
    connection = await agent.ready(declared(agent, binding))
    asked = agent.call(connection)
    await held.begun.acquire()
    agent.channel.close()
    assert (await asked).code == -32010
    await asyncio.sleep(0)
    assert held.cancelled == 1
    assert (await agent.ask("mcp/nonsense")).code == -32601


async def test_f08_a_revoked_binding_is_declared_nowhere(bridge: Bridge) -> None:
    agent, binding = Agent(), bridge.open(ECHO)
    binding.revoke()
    with pytest.raises(BindingRevoked):
        agent.channel.declare(binding)


async def test_a_binding_opens_its_doors_when_it_is_asked_to(tmp_path: Path) -> None:
    async with running_channel() as http, running_bridge(tmp_path, http=http) as bridge:
        binding, other = bridge.open(ECHO), bridge.open(ECHO)
        assert not http.app.admitted
        entry = binding.http()
        assert entry is not None
        assert binding.http() is entry
        assert http.app.admitted == 1
        assert binding.token not in str(entry.headers)
        binding.revoke()
        assert not http.app.admitted
        with pytest.raises(BindingRevoked):
            binding.http()
        await http.stop()
        assert other.http() is None


async def test_rf8_connections_are_counted_for_each_session(bridge: Bridge) -> None:
    agent = Agent()
    greedy, modest = declared(agent, bridge.open(ECHO)), declared(agent, bridge.open(ECHO))
    for _ in range(CONNECTION_LIMIT):
        await agent.connect(greedy)
    assert isinstance(await agent.ask("mcp/connect", serverId=greedy), RpcFault)
    await agent.ready(modest)


async def test_rf9_requests_that_get_no_answer_are_bounded(bridge: Bridge) -> None:
    """A subscription is not answered, it ends."""
    agent = Agent()
    connection = await agent.connect(declared(agent, bridge.open(ECHO)))
    asked = [agent.message(connection, "subscriptions/listen") for _ in range(ASKED_LIMIT + 1)]
    assert [each.done() for each in asked] == [False] * ASKED_LIMIT + [True]
    assert isinstance(await agent.message(connection, "tools/list"), RpcFault)
    agent.channel.close()
    assert all(each.done() for each in asked)
