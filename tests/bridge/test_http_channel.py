"""MCP over Streamable HTTP: a real server on loopback, the official client, and clients that mean no good."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from ostler.bridge.calls import CallResult, ToolCall
from ostler.bridge.channels.http import HttpChannel, HttpNotRunning, HttpServerEntry, NotLoopback
from ostler.bridge.channels.http_app import HttpSettings
from ostler.bridge.channels.http_session import HttpClientSlot, HttpSession
from ostler.bridge.channels.http_stream import HttpExchange
from ostler.bridge.server import Bridge
from tests.support.http_tools import INITIALIZE, bare, official, running_channel
from tests.support.relays import Echo, Held, running_bridge, tool
from tests.support.waiting import eventually, soon

if TYPE_CHECKING:
    import mcp_types

ECHO = [tool("echo", "says who it is", text={"type": "string"})]
MODES = ["legacy", "2026-07-28", "auto"]


@pytest.fixture
async def bridge(tmp_path: Path) -> AsyncIterator[Bridge]:
    async with running_bridge(tmp_path) as running:
        yield running


@pytest.fixture
async def channel() -> AsyncIterator[HttpChannel]:
    async with running_channel(stream_after=0.05) as running:
        yield running


class Watched(Held):
    """Says when a call of it is over."""

    def __init__(self, mark: str) -> None:
        super().__init__(mark)
        self.ended = asyncio.Event()

    async def __call__(self, call: ToolCall) -> CallResult:
        try:
            return await super().__call__(call)
        finally:
            self.ended.set()


async def talkative(call: ToolCall) -> CallResult:
    call.progress(1, 2, "half")
    call.log("warning", "careful")
    await asyncio.sleep(0)
    call.progress(2, 2, "whole")
    return CallResult.text(f"{call.context} is done")


def text(result: mcp_types.CallToolResult) -> str:
    from mcp_types import TextContent

    block = result.content[0]
    assert isinstance(block, TextContent)
    return block.text


@pytest.mark.parametrize("mode", MODES)
async def test_the_official_client_lists_and_calls(bridge: Bridge, channel: HttpChannel, mode: str) -> None:
    binding = bridge.open(ECHO)
    bridge.publish(binding, ECHO, Echo("A"), "session-a")
    async with official(channel.open(binding), mode=mode) as client:
        assert [each.name for each in (await client.list_tools()).tools] == ["echo"]
        assert text(await client.call_tool("echo", {"text": "hi"})) == "A:session-a:hi"
        await binding.attached()


@pytest.mark.parametrize("mode", MODES)
async def test_progress_reaches_its_own_call(bridge: Bridge, channel: HttpChannel, mode: str) -> None:
    heard: list[Any] = []

    async def hear(progress: float, total: float | None, message: str | None) -> None:
        heard.append((progress, total, message))

    binding = bridge.open(ECHO)
    bridge.publish(binding, ECHO, talkative, "session-a")
    async with official(channel.open(binding), mode=mode) as client:
        assert text(await client.call_tool("echo", progress_callback=hear)) == "session-a is done"
        assert heard == [(1, 2, "half"), (2, 2, "whole")]


async def test_logs_follow_the_level_that_the_session_set(bridge: Bridge, channel: HttpChannel) -> None:
    heard: list[object] = []

    async def hear(params: mcp_types.LoggingMessageNotificationParams) -> None:
        heard.append(params.data)

    binding = bridge.open(ECHO)
    bridge.publish(binding, ECHO, talkative)
    async with official(channel.open(binding), mode="legacy", logging_callback=hear) as client:
        await client.call_tool("echo")
        assert heard == ["careful"]
        with pytest.warns(match="deprecated"):
            await client.session.set_logging_level("error")
        await client.call_tool("echo")
        assert heard == ["careful"]


async def test_f05_two_bindings_never_meet(bridge: Bridge, channel: HttpChannel) -> None:
    from mcp.shared.exceptions import MCPError

    a, b = bridge.open(ECHO), bridge.open([tool("other")])
    bridge.publish(a, ECHO, Echo("A"), "session-a")
    bridge.publish(b, [tool("other")], Echo("B"), "session-b")
    async with official(channel.open(a)) as at_a, official(channel.open(b)) as at_b:
        said = await asyncio.gather(
            *(each for n in range(50) for each in (at_a.call_tool("echo", {"text": str(n)}), at_b.call_tool("other")))
        )
        assert [text(each) for each in said[::2]] == [f"A:session-a:{n}" for n in range(50)]
        assert {text(each) for each in said[1::2]} == {"B:session-b:"}
        with pytest.raises(MCPError, match="unknown tool"):
            await at_b.call_tool("echo")


async def test_list_changed_is_heard_on_the_get_stream(bridge: Bridge, channel: HttpChannel) -> None:
    from mcp_types import ToolListChangedNotification

    news = asyncio.Event()

    async def hear(message: object) -> None:
        if isinstance(message, ToolListChangedNotification):
            news.set()

    binding = bridge.open(ECHO)
    async with official(channel.open(binding), mode="legacy", message_handler=hear) as client:
        assert len((await client.list_tools()).tools) == 1
        # Whether its GET has come already or not: what nobody heard is told to the first who comes.
        bridge.publish(binding, [*ECHO, tool("more")], Echo("A"))
        await news.wait()
        assert len((await client.list_tools()).tools) == 2


async def test_list_changed_is_heard_by_a_stateless_listener(bridge: Bridge, channel: HttpChannel) -> None:
    binding = bridge.open(ECHO)
    async with (
        official(channel.open(binding), mode="2026-07-28") as client,
        client.listen(tools_list_changed=True) as listening,
    ):
        bridge.publish(binding, [*ECHO, tool("more")], Echo("A"))
        async for _ in listening:
            break
        assert len((await client.list_tools()).tools) == 2


@pytest.mark.parametrize("mode", MODES)
async def test_a_cancelled_call_is_stopped(bridge: Bridge, channel: HttpChannel, mode: str) -> None:
    held = Watched("A")
    binding = bridge.open(ECHO)
    bridge.publish(binding, ECHO, held)
    async with official(channel.open(binding), mode=mode) as client:
        asking = asyncio.create_task(client.call_tool("echo"))
        await held.begun.acquire()
        asking.cancel()
        await asyncio.wait([asking])
        await held.ended.wait()
        assert held.cancelled == 1
        bridge.publish(binding, ECHO, Echo("A"))
        assert text(await client.call_tool("echo")) == "A:None:"


async def test_a_long_call_becomes_a_stream(bridge: Bridge, channel: HttpChannel) -> None:
    held = Held("A")
    binding = bridge.open(ECHO)
    bridge.publish(binding, ECHO, held)
    entry = channel.open(binding)
    async with bare(entry) as http:
        session = (await http.post(entry.url, json=INITIALIZE)).headers["mcp-session-id"]
        call = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "echo"}}
        async with http.stream("POST", entry.url, json=call, headers={"mcp-session-id": session}) as response:
            assert response.headers["content-type"] == "text/event-stream"
            held.release.set()
            lines = [line async for line in response.aiter_lines() if line.startswith("data:")]
    assert len(lines) == 1
    assert '"A:None"' in lines[0]


async def test_f08_revoking_ends_calls_and_streams_and_then_the_token_is_nothing(
    bridge: Bridge, channel: HttpChannel
) -> None:
    held = Held("A")
    binding, other = bridge.open(ECHO), bridge.open(ECHO)
    bridge.publish(binding, ECHO, held)
    bridge.publish(other, ECHO, Echo("B"))
    entry, unharmed = channel.open(binding), channel.open(other)
    async with bare(entry) as http, official(unharmed) as at_b:
        session = (await http.post(entry.url, json=INITIALIZE)).headers["mcp-session-id"]
        mine = {"mcp-session-id": session}
        call = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "echo"}}
        async with http.stream("GET", entry.url, headers=mine) as listening:
            asking = asyncio.create_task(http.post(entry.url, json=call, headers=mine))
            await held.begun.acquire()
            binding.revoke()
            assert "withdrew" in (await asking).text
            assert [line async for line in listening.aiter_lines() if line.startswith("data")] == []
        assert (await http.post(entry.url, json=call, headers=mine)).status_code == 401
        assert text(await at_b.call_tool("echo")) == "B:None:"
    assert held.cancelled == 1


async def test_f09_whatever_is_wrong_with_a_token_the_answer_is_the_same(bridge: Bridge, channel: HttpChannel) -> None:
    binding, revoked = bridge.open(ECHO), bridge.open(ECHO)
    entry, dead = channel.open(binding), channel.open(revoked)
    revoked.revoke()
    tried = [
        "",
        "Bearer",
        "Bearer " + "0" * 32,
        "Basic YTpi",
        dead.headers["Authorization"],
        f"Bearer {binding.token}",  # the relay's token opens nothing here
        "Bearer " + "ä" * 16,
        entry.headers["Authorization"][:-1],
    ]
    answers = set()
    async with bare(entry) as http:
        for authorization in tried:
            for method, path in (("POST", ""), ("GET", ""), ("DELETE", ""), ("PUT", ""), ("POST", "/elsewhere")):
                headers = {"authorization": authorization.encode("latin-1")}
                response = await http.request(method, entry.url + path, json=INITIALIZE, headers=headers)
                told = {name: value for name, value in response.headers.items() if name != "date"}
                answers.add((response.status_code, response.content, tuple(sorted(told.items()))))
        del http.headers["authorization"]
        response = await http.post(entry.url, json=INITIALIZE)
        told = {name: value for name, value in response.headers.items() if name != "date"}
        answers.add((response.status_code, response.content, tuple(sorted(told.items()))))
    assert len(answers) == 1
    assert channel.app.refused == len(tried) * 5 + 1


async def test_f10_a_session_id_is_worth_nothing_under_another_token(bridge: Bridge, channel: HttpChannel) -> None:
    a, b = channel.open(bridge.open(ECHO)), channel.open(bridge.open(ECHO))
    ping = {"jsonrpc": "2.0", "id": 2, "method": "ping"}
    async with bare(a) as at_a, bare(b) as at_b:
        session = {"mcp-session-id": (await at_a.post(a.url, json=INITIALIZE)).headers["mcp-session-id"]}
        assert (await at_a.post(a.url, json=ping, headers=session)).status_code == 200
        assert (await at_b.post(a.url, json=ping, headers=session)).status_code == 404
        assert (await at_b.delete(a.url, headers=session)).status_code == 404
        assert (await at_b.get(a.url, headers=session)).status_code == 404
        assert (await at_a.delete(a.url, headers=session)).status_code == 204
        assert (await at_a.post(a.url, json=ping, headers=session)).status_code == 404


@pytest.mark.parametrize(
    "headers",
    [
        {"host": "evil.example.com"},
        {"host": "localhost.evil.example.com"},
        {"host": "127.0.0.1@evil.example.com"},
        {"origin": "http://evil.example.com"},
        {"origin": "null"},
        {"origin": "http://localhost.evil.example.com"},
        {"origin": "file://localhost"},
    ],
)
async def test_other_hosts_and_pages_are_refused_before_the_token(
    bridge: Bridge, channel: HttpChannel, headers: dict[str, str]
) -> None:
    entry = channel.open(bridge.open(ECHO))
    async with bare(entry, headers) as http:
        assert (await http.post(entry.url, json=INITIALIZE)).status_code == 403
        assert (await http.post(entry.url, json=INITIALIZE, headers={"authorization": "x"})).status_code == 403


@pytest.mark.parametrize("origin", ["http://localhost", "http://127.0.0.1:8080", "https://[::1]:1"])
async def test_pages_of_this_machine_are_served(bridge: Bridge, channel: HttpChannel, origin: str) -> None:
    entry = channel.open(bridge.open(ECHO))
    async with bare(entry, {"origin": origin}) as http:
        assert (await http.post(entry.url, json=INITIALIZE)).status_code == 200


PING = {"jsonrpc": "2.0", "id": 2, "method": "ping"}


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        ({"content": b"{"}, 400),
        ({"content": b"[]"}, 400),
        ({"json": PING}, 400),
        ({"json": [INITIALIZE, PING]}, 400),
        ({"json": PING, "headers": {"mcp-session-id": "0" * 32}}, 404),
        ({"json": INITIALIZE, "headers": {"mcp-protocol-version": "1999-01-01"}}, 400),
        ({"json": PING, "headers": {"mcp-protocol-version": "2026-07-28"}}, 400),
        ({"json": INITIALIZE, "headers": {"content-type": "text/plain"}}, 415),
        ({"json": INITIALIZE, "headers": {"accept": "text/html"}}, 406),
        ({"json": INITIALIZE, "method": "PUT"}, 405),
        ({"json": INITIALIZE, "path": "/elsewhere"}, 404),
        ({"content": b"x" * 3000}, 413),
    ],
)
async def test_requests_that_are_not_right(bridge: Bridge, request_: dict[str, Any], status: int) -> None:
    async with running_channel(body_limit=2000) as channel:
        entry = channel.open(bridge.open(ECHO))
        request = {"method": "POST", "path": "", **request_}
        async with bare(entry) as http:
            response = await http.request(request.pop("method"), entry.url + request.pop("path"), **request)
            assert response.status_code == status, response.text
            assert (await http.post(entry.url, json=INITIALIZE)).status_code == 200


async def test_a_header_that_decides_may_come_once_only(bridge: Bridge, channel: HttpChannel) -> None:
    entry = channel.open(bridge.open(ECHO))
    async with bare(entry) as http:
        twice = [*http.headers.multi_items(), ("origin", "http://localhost"), ("origin", "http://evil.example.com")]
        response = await http.post(entry.url, json=INITIALIZE, headers=twice)
        assert response.status_code == 400


VERSION = {"io.modelcontextprotocol/protocolVersion": "2026-07-28"}
META = {**VERSION, "io.modelcontextprotocol/clientCapabilities": {}}
CALL = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "echo", "_meta": META}}
AGREEING = {"mcp-protocol-version": "2026-07-28", "mcp-method": "tools/call", "mcp-name": "=?base64?ZWNobw==?="}


def stateless(method: str, meta: object = META, **headers: str) -> tuple[dict[str, Any], dict[str, str]]:
    params = {} if meta is None else {"_meta": meta}
    return {**PING, "method": method, "params": params}, {**AGREEING, "mcp-method": method, **headers}


@pytest.mark.parametrize(
    ("message", "headers", "expected"),
    [
        (CALL, AGREEING, (200, None)),
        (CALL, {**AGREEING, "mcp-name": "other"}, (400, -32020)),
        (CALL, {**AGREEING, "mcp-name": "=?base64?!?="}, (400, -32020)),
        (CALL, {**AGREEING, "mcp-method": "ping"}, (400, -32020)),
        (CALL, {**AGREEING, "mcp-protocol-version": "2025-11-25"}, (400, -32020)),
        (*stateless("tools/list"), (200, None)),
        (*stateless("tools/list", None), (400, -32602)),
        (*stateless("tools/list", "meta"), (400, -32602)),
        (*stateless("tools/list", VERSION), (400, -32602)),
        (*stateless("initialize"), (404, -32601)),
        (*stateless("ping"), (404, -32601)),
        (*stateless("resources/list"), (404, -32601)),
    ],
)
async def test_the_stateless_revision_brings_everything_with_the_request(
    bridge: Bridge, channel: HttpChannel, message: Any, headers: dict[str, str], expected: tuple[int, int | None]
) -> None:
    binding = bridge.open(ECHO)
    bridge.publish(binding, ECHO, Echo("A"))
    entry = channel.open(binding)
    async with bare(entry) as http:
        response = await http.post(entry.url, json=message, headers=headers)
    document = response.json()
    assert (response.status_code, document.get("error", {}).get("code"), document["id"]) == (*expected, 2)


async def test_a_batch_is_answered_as_a_stream(bridge: Bridge, channel: HttpChannel) -> None:
    binding = bridge.open(ECHO)
    bridge.publish(binding, ECHO, Echo("A"))
    entry = channel.open(binding)
    call = {"jsonrpc": "2.0", "id": 3, "method": "tools/call", "params": {"name": "echo"}}
    async with bare(entry) as http:
        session = {"mcp-session-id": (await http.post(entry.url, json=INITIALIZE)).headers["mcp-session-id"]}
        response = await http.post(entry.url, json=[PING, call], headers=session)
    answers = [line for line in response.text.splitlines() if line.startswith("data")]
    assert [json.loads(line[5:])["id"] for line in answers] == [2, 3]


async def test_a_client_that_never_leaves_pushes_out_its_own_sessions(bridge: Bridge) -> None:
    async with running_channel(sessions_per_binding=2) as channel:
        mine, other = channel.open(bridge.open(ECHO)), channel.open(bridge.open(ECHO))
        async with bare(mine) as http, bare(other) as neighbour:
            kept = (await neighbour.post(other.url, json=INITIALIZE)).headers["mcp-session-id"]
            names = [(await http.post(mine.url, json=INITIALIZE)).headers["mcp-session-id"] for _ in range(3)]
            seen = [await http.post(mine.url, json=PING, headers={"mcp-session-id": name}) for name in names]
            assert [response.status_code for response in seen] == [404, 200, 200]
            assert (await neighbour.post(other.url, json=PING, headers={"mcp-session-id": kept})).status_code == 200


async def test_rf9_a_call_whose_client_left_leaves_nothing_behind(bridge: Bridge) -> None:
    held = Held("A")
    binding = bridge.open(ECHO)
    bridge.publish(binding, ECHO, held)
    session = HttpSession(binding, limit=2)
    session.answers(json.dumps(INITIALIZE).encode())
    exchange = session.exchange(b'{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"echo"}}')
    await held.begun.acquire()
    exchange.drop()
    assert len(session.exchanges) == 1
    held.release.set()
    await eventually(lambda: len(session.exchanges) == 0, "the call is over and its exchange with it")
    assert exchange.stream.take() == []


@pytest.mark.parametrize("gone", [HttpExchange.drop, HttpExchange.close])
async def test_rf9_listeners_are_few_and_leave_nothing_behind(
    bridge: Bridge, gone: Callable[[HttpExchange], None]
) -> None:
    listen = {"jsonrpc": "2.0", "id": 7, "method": "subscriptions/listen"}
    frame = json.dumps({**listen, "params": {"notifications": {"toolsListChanged": True}, "_meta": META}}).encode()
    place = HttpClientSlot(bridge.open(ECHO), limit=2)
    session = place.open("name")
    for opened in ([place.exchange(frame) for _ in range(5)], [session.exchange(frame) for _ in range(5)]):
        assert [each.stream.closed for each in opened] == [True, True, True, False, False]
        for each in opened:
            gone(each)
        assert not any(each.listening for each in opened)
    assert len(session.exchanges) == 0


async def closed_by(entry: HttpServerEntry, *sent: bytes) -> bool:
    """Whether the server closes a connection on which this was said, and nothing more."""
    host, _, port = entry.url.removeprefix("http://").partition("/")[0].partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    for part in sent:
        writer.write(part)
    try:
        return b"200" not in await soon(reader.read(), "the connection is closed")
    except ConnectionError:
        return True
    finally:
        writer.close()


async def test_rf9_a_head_that_is_slow_or_endless_is_not_waited_for(
    bridge: Bridge, caplog: pytest.LogCaptureFixture
) -> None:
    async with running_channel(head_deadline=0.2) as channel:
        entry = channel.open(bridge.open(ECHO))
        assert await closed_by(entry)
        assert await closed_by(entry, b"POST /mcp HTTP/1.1\r\nHost: localhost\r\nX-Slow: ")
        # After a request that was served too.
        assert await closed_by(entry, b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", b"G")
    async with running_channel(head_deadline=3600) as channel:
        entry = channel.open(bridge.open(ECHO))
        assert await closed_by(entry, b"POST /mcp HTTP/1.1\r\n", *[b"X-Long: " + b"x" * 1000 + b"\r\n"] * 200)
        assert await closed_by(entry, b"nonsense\r\n\r\n")
    assert caplog.records == []


async def test_rf9_many_connections_push_out_each_other_and_nobody_who_is_served(bridge: Bridge) -> None:
    held = Held("A")
    binding = bridge.open(ECHO)
    bridge.publish(binding, ECHO, held)
    async with running_channel(connection_limit=20) as channel:
        entry = channel.open(binding)
        host, port = entry.url.removeprefix("http://").removesuffix("/mcp").split(":")
        async with official(entry, mode="2026-07-28") as client:
            calling = asyncio.create_task(client.call_tool("echo"))
            await held.begun.acquire()
            flood = [await asyncio.open_connection(host, int(port)) for _ in range(100)]
            for reader, _ in flood[:50]:
                with contextlib.suppress(ConnectionError):
                    assert await soon(reader.read(), "the oldest are closed") == b""
            held.release.set()
            assert text(await calling).startswith("A")
            assert [each.name for each in (await client.list_tools()).tools] == ["echo"]
            for _, writer in flood:
                writer.close()


async def test_rf9_a_slow_body_is_not_waited_for(bridge: Bridge) -> None:
    async with running_channel(body_deadline=0.1) as channel:
        entry = channel.open(bridge.open(ECHO))
        head = f"POST /mcp HTTP/1.1\r\nHost: localhost\r\nAuthorization: {entry.headers['Authorization']}\r\n"
        head += "Content-Type: application/json\r\nContent-Length: 100\r\nConnection: close\r\n\r\n{"
        assert await closed_by(entry, head.encode())


async def test_f12_stopped_it_serves_nothing_and_opens_nothing(bridge: Bridge) -> None:
    channel = HttpChannel(HttpSettings())
    with pytest.raises(HttpNotRunning):
        channel.open(bridge.open(ECHO))
    await channel.start()
    entry = channel.open(bridge.open(ECHO))
    assert "Bearer" not in repr(entry)
    await channel.stop()
    with pytest.raises(HttpNotRunning):
        channel.open(bridge.open(ECHO))


def test_it_listens_on_loopback_only() -> None:
    for host in ("0.0.0.0", "192.0.2.1", "::", "127.0.0.2", "here.example"):
        with pytest.raises(NotLoopback):
            HttpChannel(HttpSettings(host=host))


def test_it_is_off_by_default() -> None:
    assert not HttpSettings().enabled
