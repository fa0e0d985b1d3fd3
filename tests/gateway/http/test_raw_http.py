"""What is no HTTP, or too much of it, byte for byte, on both kinds of listener: the envelope, always."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from ostler.gateway.http.protocol import BEHIND, HEAD_LIMIT
from ostler.gateway.server.listener import listen_tcp, listen_unix
from ostler.gateway.server.serving import Server
from tests.support.served import Served, serving
from tests.support.waiting import eventually, soon

HEAD = b"host: localhost\r\ncontent-type: application/json\r\n"
pytestmark = pytest.mark.asyncio(loop_scope="module")
GOOD = b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n"
CHUNKED = HEAD + b"transfer-encoding: chunked\r\n"
SLOW = json.dumps({"model": "demo", "input": "begun\n!sleep 60", "stream": True}).encode()


def post(body: bytes) -> bytes:
    return b"POST /v1/responses HTTP/1.1\r\n" + HEAD + b"content-length: %d\r\n\r\n%b" % (len(body), body)


class Line:
    """A raw connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    async def answer(self, sent: bytes) -> tuple[bytes, dict[bytes, bytes], bytes]:
        """(status line, headers, body) of what comes until the other side hangs up."""
        self.writer.write(sent)
        head, _, body = (await soon(self.reader.read(), "the end of the connection")).partition(b"\r\n\r\n")
        status, *lines = head.split(b"\r\n")
        headers = {name: value for name, _, value in (line.partition(b": ") for line in lines)}
        return status, headers, body


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def served(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Served]:
    """One for all: each test has a server and a connection of its own, and looks at nothing else."""
    async with serving(tmp_path_factory.mktemp("raw") / "data") as gateway:
        yield gateway


@pytest_asyncio.fixture(params=["tcp", "unix"], loop_scope="module")
async def line(request: pytest.FixtureRequest, served: Served, tmp_path: Path) -> AsyncIterator[Line]:
    """A connection to the gateway as it serves."""
    async with line_to(Server.of(served.gateway.app), tmp_path, unix=request.param == "unix") as connected:
        yield connected


@pytest_asyncio.fixture(loop_scope="module")
async def hasty(served: Served, tmp_path: Path) -> AsyncIterator[Line]:
    """The same, to one that waits a second for what it waits 75 for."""
    server = Server.of(served.gateway.app)
    server.config.timeout_keep_alive = 1
    async with line_to(server, tmp_path, unix=False) as connected:
        yield connected


@asynccontextmanager
async def line_to(server: Server, tmp_path: Path, *, unix: bool) -> AsyncIterator[Line]:
    listener = listen_unix(tmp_path / "s") if unix else listen_tcp("127.0.0.1", 0, patience=10)
    running = asyncio.create_task(server.serve(sockets=[listener]))
    if unix:
        ends = await asyncio.open_unix_connection(str(tmp_path / "s"))
    else:
        ends = await asyncio.open_connection(*listener.getsockname())
    try:
        yield Line(*ends)
    finally:
        ends[1].close()
        server.should_exit = True
        await running


def is_refusal(found: tuple[bytes, dict[bytes, bytes], bytes], status: int) -> bool:
    line, headers, body = found
    error: dict[str, Any] = json.loads(body)["error"]
    assert line.startswith(b"HTTP/1.1 %d " % status)
    assert headers[b"content-type"] == b"application/json"
    assert headers[b"x-content-type-options"] == b"nosniff"
    assert headers[b"content-length"] == b"%d" % len(body)
    return set(error) == {"message", "type", "param", "code"} and error["type"] == "invalid_request_error"


@pytest.mark.parametrize(
    "sent",
    [
        b"nonsense\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"GET /healthz HTTP/9.9\r\n\r\n",
        b"GET /health\xffz HTTP/1.1\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nno colon\r\n\r\n",
        b"GET /healthz HTTP/1.1\r\nna me: x\r\n\r\n",
        b"POST /v1/responses HTTP/1.1\r\n" + HEAD + b"content-length: ten\r\n\r\n",
        b"POST /v1/responses HTTP/1.1\r\n" + HEAD + b"content-length: 2\r\ntransfer-encoding: chunked\r\n\r\n{}",
        b"POST /v1/responses HTTP/1.1\r\n" + HEAD + b"transfer-encoding: chunked\r\n\r\nxyz\r\n",
    ],
)
async def test_what_is_no_http_gets_the_envelope(line: Line, sent: bytes) -> None:
    assert is_refusal(await line.answer(sent), 400)


@pytest.mark.parametrize(
    "flood", [b"x-more: " + b"y" * 1000 + b"\r\n", b"y" * 1000], ids=["many headers", "one without an end"]
)
async def test_a_head_without_an_end_is_cut_off(line: Line, flood: bytes) -> None:
    start = b"GET /healthz HTTP/1.1\r\n" + (b"" if flood.endswith(b"\n") else b"x: ")
    sent = start + flood * (HEAD_LIMIT // len(flood) + 1)
    # One byte over and nothing more: what nobody reads any more would make the kernel reset the connection.
    assert is_refusal(await line.answer(sent[: HEAD_LIMIT + 1]), 431)


async def test_after_a_good_request_the_next_bad_one_is_told_so(line: Line) -> None:
    line.writer.write(GOOD)
    assert b"200 OK" in await line.reader.readuntil(b"\r\n\r\n")
    await line.reader.readuntil(b"}")
    assert is_refusal(await line.answer(b"nonsense\r\n\r\n"), 400)


async def test_nothing_is_written_into_an_answer_that_has_begun(line: Line) -> None:
    line.writer.write(post(SLOW))
    await line.reader.readuntil(b"output_text.delta")
    line.writer.write(b"nonsense\r\n\r\n")
    rest = await soon(line.reader.read(), "the end of the connection")
    assert b"HTTP/1.1" not in rest


FLOODS = pytest.mark.parametrize("flood", [b"x-more: y\r\n", b"y"], ids=["many trailers", "one without an end"])


def trailers(flood: bytes) -> bytes:
    """The end of a chunked body and one byte more than may follow it."""
    start = b"0\r\n" + (b"" if flood.endswith(b"\n") else b"x: ")
    return (start + flood * HEAD_LIMIT)[: HEAD_LIMIT + 1]


@FLOODS
async def test_trailers_without_an_end_are_cut_off(line: Line, flood: bytes) -> None:
    line.writer.write(b"POST /v1/responses HTTP/1.1\r\n" + CHUNKED + b"expect: 100-continue\r\n\r\n")
    await soon(line.reader.readuntil(b"100 Continue\r\n\r\n"), "the head's being read, apart from what follows")
    assert is_refusal(await line.answer(trailers(flood)), 431)


@FLOODS
async def test_trailers_without_an_end_are_no_second_request_to_answer(line: Line, flood: bytes) -> None:
    line.writer.write(b"GET /healthz HTTP/1.1\r\n" + CHUNKED + b"\r\n")
    await soon(line.reader.readuntil(b"}"), "the answer, which needs no body")
    assert await line.answer(trailers(flood)) == (b"", {}, b"")


async def test_a_broken_body_is_no_second_request_to_answer(line: Line) -> None:
    line.writer.write(b"GET /healthz HTTP/1.1\r\n" + CHUNKED + b"\r\n")
    await soon(line.reader.readuntil(b"}"), "the answer, which needs no body")
    assert await line.answer(b"xyz\r\n") == (b"", {}, b"")


async def test_trailers_are_no_headers(line: Line) -> None:
    ended = CHUNKED + b"connection: close\r\n\r\n0\r\nhost: elsewhere.example\r\nx-request-id: trailed\r\n\r\n"
    status, headers, _ = await line.answer(b"GET /healthz HTTP/1.1\r\n" + ended)
    assert status == b"HTTP/1.1 200 OK"
    assert headers.get(b"x-request-id") != b"trailed"


@pytest.mark.parametrize(
    "second",
    [b"GET http://h:999999/ HTTP/1.1", b"GET http:// HTTP/1.1", b"CONNECT a:1 HTTP/1.1", b"nonsense"],
)
async def test_a_bad_request_is_not_the_answer_to_the_one_before(line: Line, served: Served, second: bytes) -> None:
    before = len(served.prompts())
    line.writer.write(post(json.dumps({"model": "demo", "input": "!sleep 60"}).encode()))
    await eventually(lambda: len(served.prompts()) > before, "the first request's turn")
    assert await line.answer(second + b"\r\nhost: localhost\r\n\r\n") == (b"", {}, b"")


async def test_a_head_that_begins_where_a_big_body_ends_is_not_too_long(line: Line) -> None:
    body = b" " * 150_000
    first = b"GET /healthz HTTP/1.1\r\n" + HEAD + b"content-length: %d\r\n\r\n" % len(body)
    line.writer.write(first + body + b"GET /healthz HTTP/1.1\r\nhos")
    assert b"200 OK" in await soon(line.reader.readuntil(b"}"), "the first answer")
    status, _, _ = await line.answer(b"t: localhost\r\nconnection: close\r\n\r\n")
    assert status == b"HTTP/1.1 200 OK"


async def test_as_many_requests_as_may_wait_are_answered_in_their_order(line: Line) -> None:
    line.writer.write(b"".join(request(number) for number in range(BEHIND)))
    rest = await soon(answers(line, BEHIND), "the answers")
    assert rest == [str(number) for number in range(BEHIND)]


async def test_who_asks_and_asks_without_reading_is_cut_off(line: Line, served: Served) -> None:
    before = len(served.prompts())
    line.writer.write(post(json.dumps({"model": "demo", "input": "!sleep 60"}).encode()))
    await eventually(lambda: len(served.prompts()) > before, "the first request's turn")
    assert await line.answer(GOOD * (BEHIND + 1)) == (b"", {}, b"")


@pytest.mark.parametrize("sent", [b"", GOOD[:30], GOOD + GOOD[:30]], ids=["nothing", "half a head", "after an answer"])
async def test_who_does_not_finish_a_head_is_cut_off(hasty: Line, sent: bytes) -> None:
    hasty.writer.write(sent)
    rest = await soon(hasty.reader.read(), "the end of the connection")
    assert rest.count(b"HTTP/1.1") == sent.count(GOOD)


async def test_what_comes_after_an_answer_and_begins_no_request_buys_no_time(hasty: Line) -> None:
    hasty.writer.write(GOOD)
    await soon(hasty.reader.readuntil(b"}"), "the answer")
    hasty.writer.write(b"\r\n")
    assert await soon(hasty.reader.read(), "the end of the connection") == b""


async def test_a_byte_now_and_then_buys_no_time(hasty: Line) -> None:
    hasty.writer.write(GOOD[:26])
    reading = asyncio.create_task(hasty.reader.read())
    loop = asyncio.get_running_loop()

    def drip() -> None:
        if not reading.done():
            hasty.writer.write(b"x")
            loop.call_later(0.2, drip)

    drip()
    # A byte that is on its way while the gateway closes is answered with a reset: that is an end as well.
    with suppress(ConnectionResetError):
        assert await soon(reading, "the end of the connection") == b""


async def test_half_a_head_does_not_end_the_answer_before_it(hasty: Line) -> None:
    slow = json.dumps({"model": "demo", "input": "slow\n!sleep 1.5"}).encode()
    status, _, _ = await hasty.answer(post(slow) + GOOD[:30])
    assert status == b"HTTP/1.1 200 OK"


def request(number: int) -> bytes:
    return b"GET /healthz HTTP/1.1\r\nhost: localhost\r\nx-request-id: %d\r\n\r\n" % number


async def answers(line: Line, many: int) -> list[str]:
    """The ids of so many answers."""
    found = []
    for _ in range(many):
        head = await line.reader.readuntil(b"}")
        found.append(head.partition(b"x-request-id: ")[2].partition(b"\r\n")[0].decode())
    return found


@pytest.mark.parametrize("begun", [b"content-length: 9\r\n\r\n{", b"transfer-encoding: chunked\r\n\r\n1\r\n{\r\n"])
async def test_a_body_that_stays_away_is_refused_and_its_connection_closed(tmp_path: Path, begun: bytes) -> None:
    async with (
        serving(tmp_path / "data", gateway__body_timeout=0.2) as hurried,
        line_to(Server.of(hurried.gateway.app), tmp_path, unix=False) as line,
    ):
        found = await line.answer(b"POST /v1/responses HTTP/1.1\r\n" + HEAD + begun)
    assert is_refusal(found, 408)
    assert b"only 1 bytes" in found[2]
