"""A stream on a real connection: exact frames on the short way and on the long one, and bounded where nobody reads."""

import asyncio
import logging
import re
import socket
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

import httpx
import pytest
from starlette.responses import PlainTextResponse
from starlette.types import Message, Receive, Scope, Send
from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from ostler.gateway.http.fast_path import CYCLE, fast_path_of
from ostler.gateway.http.frames import frame
from ostler.gateway.http.protocol import JsonHttp
from ostler.gateway.http.streaming import EventStream, OpenAnswer
from ostler.gateway.server.listener import listen_tcp
from ostler.gateway.server.serving import Server
from ostler.gateway.turns.answer import AnswerStream
from tests.support.answers import DELTA, deltas, end, said, say
from tests.support.waiting import eventually, soon

CHUNK = re.compile(rb"([0-9a-f]+)\r\n")
HELD_AT_MOST = 1024 * 1024
"""For a client that reads nothing: uvicorn's 64 KiB, and what is taken from an answer at once."""


@dataclass
class Stage:
    """An application that is one stream; it counts what goes the long way, through all layers."""

    stream: AnswerStream = field(default_factory=lambda: AnswerStream("a_1"))
    long_way: int = 0
    answer: RequestResponseCycle | None = None
    begun: asyncio.Event = field(default_factory=asyncio.Event)
    over: asyncio.Event = field(default_factory=asyncio.Event)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.answer = scope["extensions"][CYCLE]["cycle"]()
        self.begun.set()

        async def counted(message: Message) -> None:
            self.long_way += message.get("body", b"").count(b"\n\n")
            await send(message)

        try:
            await EventStream(OpenAnswer(self.stream, deltas), 0, 60.0)(scope, receive, counted)
        finally:
            self.over.set()

    @property
    def held(self) -> int:
        """Bytes that wait for the client outside of the answer."""
        assert self.answer is not None
        size: int = self.answer.transport.get_write_buffer_size()
        return size


@asynccontextmanager
async def listener_of(
    stage: Stage, connection: str = "close"
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """A client that has asked and was told the head."""
    place = listen_tcp("127.0.0.1", 0, patience=60)
    server = Server.of(stage)
    running = asyncio.create_task(server.serve(sockets=[place]))
    reader, writer = await asyncio.open_connection(*place.getsockname(), limit=1 << 16)
    try:
        writer.write(f"GET / HTTP/1.1\r\nhost: localhost\r\nconnection: {connection}\r\n\r\n".encode())
        head = await soon(reader.readuntil(b"\r\n\r\n"), "the head")
        assert b"transfer-encoding: chunked" in head
        yield reader, writer
    finally:
        writer.close()
        server.should_exit = True
        await soon(running, "the server ends")


def body_of(chunked: bytes) -> bytes:
    """What the chunks say; the last one is empty and nothing follows it."""
    body, place = b"", 0
    while found := CHUNK.match(chunked, place):
        size = int(found[1], 16)
        body += chunked[found.end() : found.end() + size]
        place = found.end() + size + 2
        if not size:
            break
    assert place == len(chunked)
    return body


async def test_pieces_that_come_alone_pass_the_layers_by_and_the_end_does_not() -> None:
    stage = Stage()
    async with listener_of(stage) as (reader, _):
        for number in range(20):
            say(stage.stream, f"piece {number}")
            expected = DELTA(number, f"piece {number}")
            assert await soon(reader.readuntil(b"\n\n\r\n"), "the piece") == b"%x\r\n%b\r\n" % (len(expected), expected)
        end(stage.stream)
        assert body_of(await soon(reader.read(), "the end")) == frame("last", 20, {})
        assert await soon(reader.read(), "nothing more") == b""
        await soon(stage.over.wait(), "the application is done")
    # The first one may come before the stream waits for it, the last one comes with the end.
    assert 1 <= stage.long_way <= 2


async def test_a_client_that_reads_nothing_is_told_everything_later_and_costs_what_the_answer_holds() -> None:
    stage, word = Stage(), "x" * 1000
    count = 20_000
    async with listener_of(stage) as (reader, _):
        for number in range(count):
            say(stage.stream, word)
            if number % 100 == 0:
                await asyncio.sleep(0)
        assert stage.answer is not None
        flow = stage.answer.flow
        await eventually(lambda: flow.write_paused, "the connection takes no more")
        assert stage.held < HELD_AT_MOST
        end(stage.stream)
        body = body_of(await soon(reader.read(), "the rest"))
    assert body == said(*[word] * count) + frame("last", count, {})
    assert stage.long_way < count


async def test_a_client_that_leaves_ends_its_stream() -> None:
    stage = Stage()
    async with listener_of(stage) as (_, writer):
        say(stage.stream, "a")
        writer.close()
        await soon(stage.over.wait(), "the stream is left")
        say(stage.stream, "b")
        await asyncio.sleep(0)


async def test_a_client_that_leaves_with_another_request_behind_its_stream_is_no_fault_of_ours(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """While that one waits nothing is read, so only a piece that cannot be sent tells that the client is gone."""
    stage = Stage()
    async with listener_of(stage, "keep-alive") as (_, writer):
        first = stage.answer
        assert first is not None
        writer.write(b"GET /next HTTP/1.1\r\nhost: localhost\r\n\r\n")
        await eventually(lambda: not first.transport.is_reading(), "the next one waits")
        writer.close()

        def left() -> bool:
            say(stage.stream, "a")
            return stage.over.is_set()

        await eventually(left, "the stream is left")
    assert stage.answer is first, "what nobody waits for is not begun"
    assert [record.getMessage() for record in caplog.records if record.levelno >= logging.WARNING] == []


async def test_a_connection_that_is_reset_is_kept_for_nobody() -> None:
    """Uvicorn's timer for its next request would hold it, and what it was asked last, until it is over."""
    place = listen_tcp("127.0.0.1", 0, patience=60)
    server = Server.of(PlainTextResponse("answer"))
    running = asyncio.create_task(server.serve(sockets=[place]))
    reader, writer = await asyncio.open_connection(*place.getsockname())
    writer.write(b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n")
    await soon(reader.readuntil(b"answer"), "the answer")
    (connection,) = server.server_state.connections
    assert isinstance(connection, JsonHttp)
    assert connection.timeout_keep_alive_task is not None
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()
    await eventually(lambda: not server.server_state.connections, "the reset is heard")
    kept = connection.timeout_keep_alive_task
    server.should_exit = True
    await soon(running, "the server ends")
    assert kept is None


async def test_without_a_server_of_ours_there_is_no_road() -> None:
    assert fast_path_of({"type": "http"}) is None
    assert fast_path_of({"type": "http", "extensions": {"http.response.push": {}}}) is None


async def test_a_connection_outlasts_what_clients_and_balancers_keep_of_theirs() -> None:
    """Closed at the moment it is used again, it would answer a good request with a reset."""
    balancers = 60
    idle = Server.of(Stage()).config.timeout_keep_alive
    assert idle > max(balancers, httpx.Limits().keepalive_expiry or 0)
