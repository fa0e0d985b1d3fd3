"""Hostile clients, in a process of their own: `python -m bench._floods.clients KIND PORT SECONDS`.

Each attack is repeated until the time is over, and bounded in what it sends at once. At a lower priority than the
gateway, as the hostile agent.
"""

import asyncio
import json
import os
import sys
import time
from collections.abc import Awaitable, Callable
from typing import cast

MIB = 1 << 20
BODY = 10 * MIB - 4096
IDLE = 1000


def post(path: str, body: bytes, headers: bytes = b"") -> bytes:
    """A whole request."""
    head = b"POST %b HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: %d\r\n%b\r\n"
    return head % (path.encode(), len(body), headers) + body


def filled(before: bytes, each: bytes, after: bytes) -> bytes:
    """As much of one thing as a body may hold."""
    return before + each * ((BODY - len(before) - len(after)) // len(each)) + each.rstrip(b",") + after


def schema(width: int) -> bytes:
    """A tool with this many properties."""
    properties = {f"p{number}": {"type": "string"} for number in range(width)}
    return json.dumps(
        {"type": "function", "name": "f", "parameters": {"type": "object", "properties": properties}}
    ).encode()


def tools() -> bytes:
    """128 tools that fill a body."""
    names = (schema(2200).replace(b'"f"', b'"f%d"' % number) for number in range(128))
    return b'{"model": "demo", "input": "x", "tools": [' + b",".join(names) + b"]}"


def nested() -> bytes:
    """1000 levels, again and again."""
    return filled(b'{"model": "demo", "input": [', b"[" * 100 + b"]" * 100 + b",", b"]}")


RESPONSES, CHAT = "/v1/responses", "/v1/chat/completions"
BODIES: dict[str, tuple[str, Callable[[], bytes]]] = {
    "items": (RESPONSES, lambda: filled(b'{"model": "demo", "input": [', b"{},", b"]}")),
    "messages_in": (
        RESPONSES,
        lambda: filled(b'{"model": "demo", "input": [', b'{"role":"user","content":"x"},', b"]}"),
    ),
    "parts": (
        RESPONSES,
        lambda: filled(
            b'{"model": "demo", "input": [{"role":"user","content":[', b'{"type":"input_text","text":"x"},', b"]}]}"
        ),
    ),
    "chat": (CHAT, lambda: filled(b'{"model": "demo", "messages": [', b'{"role":"user","content":"x"},', b"]}")),
    "zeros": (RESPONSES, lambda: filled(b'{"model": "demo", "input": [', b"0,", b"]}")),
    "nested": (RESPONSES, nested),
    "brackets": (RESPONSES, lambda: b"[" * BODY),
    "quotes": (RESPONSES, lambda: b'["' + b'","' * (BODY // 3) + b'"]'),
    "escapes": (RESPONSES, lambda: b'{"model": "nobody", "input": "' + b"\\\\" * (BODY // 2 - 100) + b'"}'),
    "tools": (RESPONSES, tools),
    "many_items": (
        RESPONSES,
        lambda: (
            b'{"model": "demo", "input": ['
            + b'{"role":"user","content":"x"},' * 1999
            + b'{"role":"user","content":"x"}]}'
        ),
    ),
}


async def send(port: int, data: bytes) -> bytes:
    """What comes back first."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(data)
        return await reader.read(65536)
    except ConnectionError:
        return b""
    finally:
        writer.close()


async def headers(port: int) -> None:
    """As many headers as a head may hold, and then more."""
    await send(port, b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n" + b"a:\r\n" * 16_000 + b"\r\n")
    await send(port, b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n" + b"a:\r\n" * 100_000 + b"\r\n")


async def chunks(port: int) -> None:
    """A body of a byte a chunk."""
    head = b"POST /v1/responses HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n"
    await send(port, head + b"1\r\n[\r\n" * (2 * MIB))


async def garbage(port: int) -> None:
    """What is no HTTP, and what begins and does not go on."""
    kept = [await asyncio.open_connection("127.0.0.1", port) for _ in range(100)]
    for number, (_, writer) in enumerate(kept):
        writer.write(os.urandom(1000) if number % 2 else b"POST /v1/responses HTTP/1.1\r\nhost: lo")
    await asyncio.sleep(0.2)
    for _, writer in kept:
        writer.close()


async def slow(port: int) -> None:
    """Bodies that come a byte at a time."""
    head = b"POST /v1/responses HTTP/1.1\r\nhost: localhost\r\ncontent-length: 100000\r\n\r\n"
    kept = [await asyncio.open_connection("127.0.0.1", port) for _ in range(200)]
    for _, writer in kept:
        writer.write(head)
    for _ in range(20):
        for _, writer in kept:
            writer.write(b" ")
        await asyncio.sleep(0.05)
    for _, writer in kept:
        writer.close()


async def deaf(port: int) -> None:
    """Streams that nobody reads."""
    body = json.dumps({"model": "demo/deaf", "input": "!stream 5000", "stream": True}).encode()
    kept = []
    for _ in range(10):
        _, writer = await asyncio.open_connection("127.0.0.1", port, limit=1)
        cast("asyncio.Transport", writer.transport).pause_reading()
        writer.write(post(RESPONSES, body))
        kept.append(writer)
    await asyncio.sleep(1)
    for writer in kept:
        writer.transport.abort()


async def idle(port: int) -> None:
    """Connections that say nothing, and some that asked once."""
    kept = []
    for number in range(IDLE):
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", port)
            if number % 2:
                writer.write(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n")
                await reader.read(4096)
            kept.append(writer)
        except OSError:
            continue
    await asyncio.sleep(1)
    for writer in kept:
        writer.close()


ATTACKS: dict[str, Callable[[int], Awaitable[None]]] = {
    each.__name__: each for each in (headers, chunks, garbage, slow, deaf, idle)
}


async def main(kind: str, port: int, seconds: float) -> None:
    """Again and again."""
    data = b""
    if kind in BODIES:
        path, make = BODIES[kind]
        data = post(path, make())
    until, rounds = time.monotonic() + seconds, 0
    while time.monotonic() < until:
        if data:
            await send(port, data)
        else:
            await ATTACKS[kind](port)
        rounds += 1
    print(rounds)


if __name__ == "__main__":
    os.nice(10)
    asyncio.run(main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3])))
