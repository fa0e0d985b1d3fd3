"""Clients of the bridge as an agent would be one: a real relay process, or a bare connection to the socket."""

import asyncio
import itertools
import json
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from ostler.bridge.calls import CallResult, ToolCall
from ostler.bridge.doors import HttpChannelPort
from ostler.bridge.server import Bridge
from ostler.bridge.session_binding import SessionBinding
from ostler.bridge.settings import BridgeSettings

Message = dict[str, Any]
LIMIT = 64 * 1024 * 1024


def tool(name: str, description: str = "", **properties: Any) -> Message:
    return {"name": name, "description": description, "inputSchema": {"type": "object", "properties": properties}}


class Client:
    """Speaks MCP over a pair of streams and tells replies from notices."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer
        self.notices: list[Message] = []
        self.noticed = asyncio.Event()
        self.stray: list[Message] = []
        self.closed = asyncio.Event()
        self._waiting: dict[Any, asyncio.Future[Message]] = {}
        self._ids = itertools.count(1)
        self._pump = asyncio.get_running_loop().create_task(self._read())

    async def _read(self) -> None:
        try:
            while line := await self.reader.readline():
                self._take(json.loads(line))
        except ConnectionError:
            pass
        finally:
            self.closed.set()
            for future in self._waiting.values():
                if not future.done():
                    future.set_exception(ConnectionError("closed"))
                    # Seen here, so that a test may leave a question unanswered.
                    future.exception()

    def _take(self, message: Message) -> None:
        if "method" in message:
            self.notices.append(message)
            self.noticed.set()
        elif (future := self._waiting.pop(message.get("id"), None)) is not None and not future.done():
            future.set_result(message)
        else:
            self.stray.append(message)

    def raw(self, data: bytes) -> None:
        self.writer.write(data)

    def tell(self, method: str, **params: Any) -> None:
        self.raw(json.dumps({"jsonrpc": "2.0", "method": method, "params": params}).encode() + b"\n")

    def ask(self, method: str, params: Message | None = None, *, ident: Any = None) -> asyncio.Future[Message]:
        ident = next(self._ids) if ident is None else ident
        future = self.expect(ident)
        message = {"jsonrpc": "2.0", "id": ident, "method": method, "params": {} if params is None else params}
        self.raw(json.dumps(message).encode() + b"\n")
        return future

    def expect(self, ident: Any) -> asyncio.Future[Message]:
        future: asyncio.Future[Message] = asyncio.get_running_loop().create_future()
        self._waiting[ident] = future
        return future

    async def initialize(self, version: str = "2025-06-18") -> Message:
        about = {"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "test", "version": "0"}}
        reply = await self.ask("initialize", about)
        self.tell("notifications/initialized")
        return reply

    async def tools(self) -> list[Message]:
        reply = await self.ask("tools/list")
        tools: list[Message] = reply["result"]["tools"]
        return tools

    async def names(self) -> list[str]:
        return [entry["name"] for entry in await self.tools()]

    def call(self, name: str, arguments: Message | None = None, **rest: Any) -> asyncio.Future[Message]:
        return self.ask("tools/call", {"name": name, "arguments": arguments or {}, **rest})

    async def text(self, name: str, arguments: Message | None = None) -> str:
        reply = await self.call(name, arguments)
        text: str = reply["result"]["content"][0]["text"]
        return text

    async def notice(self, method: str) -> Message:
        while True:
            for message in self.notices:
                if message["method"] == method:
                    return message
            self.noticed.clear()
            await self.noticed.wait()

    async def close(self) -> None:
        self.writer.close()
        await self.closed.wait()
        await self._pump


class Relay(Client):
    """A real relay process."""

    process: asyncio.subprocess.Process


async def open_connection(path: str, hello: bytes | None) -> Client:
    reader, writer = await asyncio.open_unix_connection(path, limit=LIMIT)
    client = Client(reader, writer)
    if hello is not None:
        client.raw(hello)
    return client


def hello(token: str) -> bytes:
    return f"OSTLER/1 {os.getpid()} {token}\n".encode()


@asynccontextmanager
async def connection(path: str, token: str) -> AsyncIterator[Client]:
    client = await open_connection(path, hello(token))
    try:
        yield client
    finally:
        await client.close()


@asynccontextmanager
async def relay_process(argv: Sequence[str], env: Mapping[str, str]) -> AsyncIterator[Relay]:
    process = await asyncio.create_subprocess_exec(
        *argv,
        env=dict(env),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        limit=LIMIT,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stderr is not None
    client = Relay(process.stdout, process.stdin)
    client.process = process
    try:
        yield client
    finally:
        if process.returncode is None:
            process.stdin.close()
        async with asyncio.timeout(300):
            said = await process.stderr.read()
            await process.wait()
            await client.closed.wait()
        assert said == b"", said


def relay(binding: SessionBinding) -> Any:
    return relay_process(binding.relay.argv, binding.relay.env)


@asynccontextmanager
async def running_bridge(
    directory: Path, *, http: HttpChannelPort[SessionBinding] | None = None, **settings: Any
) -> AsyncIterator[Bridge]:
    bridge = Bridge(BridgeSettings(data_directory=directory, **settings), http=http)
    await bridge.start()
    try:
        yield bridge
    finally:
        await bridge.stop()


class Echo:
    """A dispatcher that says whose it is."""

    def __init__(self, mark: str) -> None:
        self.mark = mark
        self.seen: list[ToolCall] = []

    async def __call__(self, call: ToolCall) -> CallResult:
        self.seen.append(call)
        return CallResult.text(f"{self.mark}:{call.context}:{call.arguments.get('text', '')}")


class Held(Echo):
    """A dispatcher whose calls end when the test says so."""

    def __init__(self, mark: str) -> None:
        super().__init__(mark)
        self.begun = asyncio.Semaphore(0)
        self.release = asyncio.Event()
        self.cancelled = 0

    async def __call__(self, call: ToolCall) -> CallResult:
        self.seen.append(call)
        self.begun.release()
        try:
            await self.release.wait()
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        return CallResult.text(f"{self.mark}:{call.context}")
