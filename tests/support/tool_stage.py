"""The test's side of `tool_server.py`: tickets whose tools are scripted, and whose every call is on record.

A `StageTicket` satisfies `pool.ports.ToolTicket` by shape, so product code attaches it like the real bridge's.
"""

import asyncio
import itertools
import json
import secrets
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ostler.wire.json import JsonObject

SERVER = Path(__file__).with_name("tool_server.py")


class ToolFailed(Exception):
    """What a handler raises to answer with an error for the model to read."""


Handler = Callable[[str, JsonObject], Awaitable[str]]


@dataclass(frozen=True, slots=True)
class StageRelay:
    """How an agent starts the server."""

    name: str
    argv: Sequence[str]
    env: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class StageResult:
    """A text for the model."""

    content: Sequence[JsonObject]
    is_error: bool = False


@dataclass
class StageTicket:
    """One session's tools."""

    token: str
    relay: StageRelay
    definitions: Sequence[JsonObject]
    handler: Handler
    calls: list[tuple[str, JsonObject]] = field(default_factory=list)
    pids: list[int] = field(default_factory=list)
    """The servers that came with this token, in order."""
    listed: asyncio.Event = field(default_factory=asyncio.Event)
    called: asyncio.Event = field(default_factory=asyncio.Event)
    owner: Any = None
    stated: list[JsonObject] = field(default_factory=list)
    """What came beside the arguments of each call."""
    witness: str | None = None
    revoked: bool = False
    _wires: list[asyncio.StreamWriter] = field(default_factory=list)
    _listeners: list[Callable[[], None]] = field(default_factory=list)

    def owned_by(self, owner: Any) -> None:
        self.owner = owner

    def witnessed_by(self, agent_session: str) -> None:
        self.witness = agent_session

    async def attached(self) -> None:
        await self.listed.wait()

    async def call(self, name: str, arguments: JsonObject, *, call_id: str) -> StageResult:
        self.calls.append((name, arguments))
        self.called.set()
        try:
            return StageResult([{"type": "text", "text": await self.handler(name, arguments)}])
        except ToolFailed as failure:
            return StageResult([{"type": "text", "text": str(failure)}], is_error=True)

    def on_definitions(self, listener: Callable[[], None]) -> None:
        self._listeners.append(listener)

    def revoke(self) -> None:
        self.revoked = True
        for wire in self._wires:
            wire.close()

    def change(self, definitions: Sequence[JsonObject]) -> None:
        """Publish other tools; servers send `tools/list_changed`."""
        self.definitions = definitions
        self.listed.clear()
        for wire in self._wires:
            send(wire, {"tools": list(definitions)})
        for listener in self._listeners:
            listener()


class Stage:
    """Where servers of this test say hello."""

    def __init__(self, socket: Path) -> None:
        self._socket = socket
        self._tickets: dict[str, StageTicket] = {}
        self._tasks: set[asyncio.Task[None]] = set()
        self._numbers = itertools.count(1)
        self.strangers: list[str] = []
        """Tokens that nobody holds."""

    def open(self, definitions: Sequence[JsonObject], handler: Handler, *, name: str = "gw") -> StageTicket:
        """A new ticket."""
        token = secrets.token_hex(16)
        env = {"STAGE_SOCKET": str(self._socket), "STAGE_TOKEN": token}
        relay = StageRelay(name, [sys.executable, "-I", "-S", str(SERVER)], env)
        ticket = self._tickets[token] = StageTicket(token, relay, definitions, handler)
        return ticket

    def accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """A server connected."""
        task = asyncio.create_task(self._serve(reader, writer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            hello = json.loads(await reader.readline() or b"{}")
            ticket = self._tickets.get(hello.get("token", ""))
            if ticket is None or ticket.revoked:
                self.strangers.append(str(hello.get("token")))
                return
            ticket.pids.append(hello["pid"])
            ticket._wires.append(writer)
            send(writer, {"tools": list(ticket.definitions)})
            async with asyncio.TaskGroup() as calls:
                while line := await reader.readline():
                    frame = json.loads(line)
                    if "listed" in frame:
                        ticket.listed.set()
                    else:
                        calls.create_task(self._call(ticket, frame, writer))
        except ConnectionError:
            return
        finally:
            writer.close()

    async def _call(self, ticket: StageTicket, frame: JsonObject, writer: asyncio.StreamWriter) -> None:
        ticket.stated.append(frame["meta"])
        result = await ticket.call(frame["name"], frame["arguments"], call_id=str(frame["call"]))
        send(writer, {"id": frame["call"], "result": {"content": list(result.content), "isError": result.is_error}})

    async def hang_up(self) -> None:
        """End every connection."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)


def send(writer: asyncio.StreamWriter, frame: JsonObject) -> None:
    if not writer.is_closing():
        writer.write(json.dumps(frame).encode() + b"\n")


@asynccontextmanager
async def stage_at(folder: Path) -> AsyncIterator[Stage]:
    """A stage on a socket in this folder."""
    socket = folder / "stage.sock"
    stage = Stage(socket)
    server = await asyncio.start_unix_server(stage.accept, str(socket))
    async with server:
        yield stage
        await stage.hang_up()


def tool(name: str, text: str = "answers with a word of its session") -> JsonObject:
    """A definition of a tool that takes one optional text."""
    schema = {"type": "object", "properties": {"text": {"type": "string"}}}
    return {"name": name, "description": text, "inputSchema": schema}
