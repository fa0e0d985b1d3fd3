"""Clients of the gateway: raw asyncio over keep-alive connections, so that their own cost is small and always equal."""

import asyncio
import json
import re
import time
from dataclasses import dataclass, field

DELTA = b"event: response.output_text.delta\n"
COMPLETED = b"event: response.completed"
LENGTH = re.compile(rb"content-length: (\d+)")


def request(text: str, **fields: object) -> bytes:
    """POST /v1/responses"""
    body = json.dumps({"model": "demo", "input": text, **fields}).encode()
    return b"POST /v1/responses HTTP/1.1\r\nhost: localhost\r\ncontent-length: %d\r\n\r\n%b" % (len(body), body)


@dataclass
class Client:
    """One keep-alive connection."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    @classmethod
    async def to(cls, port: int) -> "Client":
        return cls(*await asyncio.open_connection("127.0.0.1", port, limit=1 << 26))

    async def ask(self, text: str, **fields: object) -> bytes:
        """The whole answer."""
        self.writer.write(request(text, **fields))
        head = await self.reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200"), head
        found = LENGTH.search(head)
        if found is not None:
            return await self.reader.readexactly(int(found[1]))
        return await self.reader.readuntil(b"\r\n0\r\n\r\n")

    async def close(self) -> None:
        self.writer.close()
        await self.writer.wait_closed()


@dataclass(eq=False)
class Listener(asyncio.Protocol):
    """One streamed answer: when its deltas came. It keeps times and nothing else, so that 500 of them are cheap."""

    asked: bytes
    over: "asyncio.Future[None]"
    times: list[float] = field(default_factory=list)
    deltas: int = 0
    under_way: asyncio.Event = field(default_factory=asyncio.Event)
    """Its first delta comes with the work of its turn, its second one alone."""
    completed: bool = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        transport.write(self.asked)

    def data_received(self, data: bytes) -> None:
        found = data.count(DELTA)
        if found:
            self.deltas += found
            self.times.append(time.perf_counter())
            if self.deltas > 1:
                self.under_way.set()
        if COMPLETED in data:
            self.completed = True
            self.transport.close()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - asyncio's own signature
        if not self.over.done():
            self.over.set_result(None)


async def listen(port: int, text: str) -> Listener:
    """Ask for a streamed answer."""
    loop = asyncio.get_running_loop()
    asked = request(text, stream=True)
    _, listener = await loop.create_connection(lambda: Listener(asked, loop.create_future()), "127.0.0.1", port)
    return listener
