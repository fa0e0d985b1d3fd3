"""Just enough HTTP/1.1 to serve model clients on loopback.

Rules: bodies by length or chunked, gzip taken off; keep-alive until the client ends it or an event stream was sent. A
request that is not HTTP ends its connection.
"""

import asyncio
import gzip
from collections.abc import Mapping
from dataclasses import dataclass

LIMIT = 64 << 20


class BadRequest(Exception):
    """Not HTTP as we speak it."""


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """One request with its whole body."""

    method: str
    path: str
    body: bytes
    last: bool
    """The client asked to hang up after the answer."""


async def read_request(reader: asyncio.StreamReader) -> HttpRequest | None:
    """The next request of a connection, or None at its end."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError as end:
        if end.partial:
            raise BadRequest("the head is cut off") from end
        return None
    lines = head.decode("latin-1").split("\r\n")
    words = lines[0].split(" ")
    if len(words) != 3:
        raise BadRequest(f"no request line: {lines[0]!r}")
    headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])}
    body = await read_body(reader, headers)
    return HttpRequest(words[0], words[1].partition("?")[0], body, headers.get("connection", "").lower() == "close")


async def read_body(reader: asyncio.StreamReader, headers: Mapping[str, str]) -> bytes:
    """The body, whole."""
    if headers.get("transfer-encoding", "").lower() == "chunked":
        body = await read_chunks(reader)
    else:
        length = int(headers.get("content-length") or 0)
        if length > LIMIT:
            raise BadRequest(f"a body of {length} bytes")
        body = await reader.readexactly(length)
    return gzip.decompress(body) if headers.get("content-encoding") == "gzip" else body


async def read_chunks(reader: asyncio.StreamReader) -> bytes:
    """A chunked body."""
    body = bytearray()
    while size := int((await reader.readuntil(b"\r\n")).split(b";")[0], 16):
        body += await reader.readexactly(size)
        await reader.readexactly(2)
        if len(body) > LIMIT:
            raise BadRequest("an endless body")
    await reader.readuntil(b"\r\n")
    return bytes(body)


def document(body: bytes, status: str = "200 OK") -> bytes:
    """A JSON answer."""
    head = f"HTTP/1.1 {status}\r\ncontent-type: application/json\r\ncontent-length: {len(body)}\r\n\r\n"
    return head.encode() + body


STREAM_HEAD = (
    b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncache-control: no-cache\r\nconnection: close\r\n\r\n"
)
