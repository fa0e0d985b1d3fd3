"""A minimal HTTP client over TCP, TLS or a unix socket, with one connection per request.

Rules: an answer is read as it arrives. Leaving the block closes the connection, which tells the gateway that the client
no longer listens. Network errors become `Unreachable` here and nowhere else.
"""

import asyncio
import errno
import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from urllib.parse import urlsplit

import httptools

from ostler.gateway.model.errors import GatewayError

CHUNK = 65_536
CONNECT_SECONDS = 10.0
UNIX = "unix:"
NOBODY = "nobody listens there; start one with `ostler serve`, or name another place"


class Unreachable(GatewayError):
    """No gateway answers at the address, or the connection broke."""

    def __init__(self, address: str, why: str, *, before_sending: bool = False) -> None:
        super().__init__(f"no gateway at {address}: {why}")
        self.address = address
        self.before_sending = before_sending
        """Whether the gateway cannot have received the request."""


@dataclass
class Arrival:
    """Collects the parts of an answer from the parser's callbacks."""

    status: int = 0
    headers: dict[str, str] = field(default_factory=dict)
    pieces: list[bytes] = field(default_factory=list)
    begun: bool = False
    complete: bool = False

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        self.begun = True

    def on_body(self, body: bytes) -> None:
        self.pieces.append(body)

    def on_message_complete(self) -> None:
        self.complete = True


@dataclass
class HttpReply:
    """An answer whose headers have arrived."""

    address: str
    status: int
    headers: Mapping[str, str]
    _answer: Arrival
    _parser: "httptools.HttpResponseParser"
    _reader: asyncio.StreamReader

    async def pieces(self) -> AsyncIterator[bytes]:
        """Yield the body as it arrives."""
        while True:
            while self._answer.pieces:
                yield self._answer.pieces.pop(0)
            if self._answer.complete:
                return
            await feed(self._reader, self._parser, self.address)

    async def read(self) -> bytes:
        """Read the whole body; raises `Unreachable` if the connection ends first."""
        return b"".join([piece async for piece in self.pieces()])


@dataclass(frozen=True, slots=True)
class HttpClient:
    """The address of a gateway, and the key to send."""

    address: str
    """`http://host:port`, `https://...`, or `unix:/path`."""
    key: str | None = None

    @asynccontextmanager
    async def request(self, method: str, path: str, body: bytes | None = None) -> AsyncIterator[HttpReply]:
        """Send a request; yields the reply when its headers have arrived."""
        reader, writer = await connect(self.address)
        try:
            writer.write(self._head(method, path, body) + (body or b""))
            yield await head_of(reader, self.address)
        except OSError as error:
            raise Unreachable(self.address, error.strerror or str(error)) from error
        finally:
            writer.close()

    def _head(self, method: str, path: str, body: bytes | None) -> bytes:
        host = "localhost" if self.address.startswith(UNIX) else urlsplit(self.address).netloc.rpartition("@")[2]
        lines = [f"{method} {path} HTTP/1.1", f"host: {host}", "accept: */*", "connection: close"]
        if body is not None:
            lines += ["content-type: application/json", f"content-length: {len(body)}"]
        if self.key is not None:
            lines.append(f"authorization: Bearer {self.key}")
        return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


async def connect(address: str) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
    """Connect to an address. Raises `Unreachable`."""
    try:
        async with asyncio.timeout(CONNECT_SECONDS):
            if address.startswith(UNIX):
                return await asyncio.open_unix_connection(address.removeprefix(UNIX))
            parts = urlsplit(address)
            secure = ssl.create_default_context() if parts.scheme == "https" else None
            port = parts.port or (443 if secure else 80)
            return await asyncio.open_connection(parts.hostname, port, ssl=secure)
    except TimeoutError as error:
        raise Unreachable(address, f"no connection within {CONNECT_SECONDS:g} s", before_sending=True) from error
    except (ConnectionRefusedError, FileNotFoundError) as error:
        raise Unreachable(address, NOBODY, before_sending=True) from error
    except (OSError, ValueError) as error:
        why = NOBODY if all_refused(str(error)) else str(error)
        raise Unreachable(address, why, before_sending=True) from error


def all_refused(error_fields: str) -> bool:
    """Whether every address of a host refused the connection: asyncio reports them all in one text."""
    return error_fields.count("[Errno ") == error_fields.count(f"[Errno {errno.ECONNREFUSED}]") > 0


async def head_of(reader: asyncio.StreamReader, address: str) -> HttpReply:
    """Read until the headers are complete."""
    answer = Arrival()
    parser = httptools.HttpResponseParser(answer)
    while not answer.begun:
        await feed(reader, parser, address)
    return HttpReply(address, parser.get_status_code(), answer.headers, answer, parser, reader)


async def feed(reader: asyncio.StreamReader, parser: "httptools.HttpResponseParser", address: str) -> None:
    """Read once, and pass the data to the parser."""
    data = await reader.read(CHUNK)
    if not data:
        raise Unreachable(address, "the connection ended in the middle of an answer")
    try:
        parser.feed_data(data)
    except httptools.HttpParserError as error:
        raise Unreachable(address, f"what answers there is no gateway ({error})") from error
