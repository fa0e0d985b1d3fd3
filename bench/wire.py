"""What one text update costs from bytes to message: ours, a plain json loop, and the reader of the ACP SDK.

All three hear the same bytes in the same run. The SDK's row ends at its message handler, as ours ends at the
`Notification`; it starts one task per message, which is part of what it costs.
"""

import asyncio
import io
import json
from collections.abc import Iterator
from typing import cast

from acp.connection import Connection

from bench.measure import Report, Sample, cpu_seconds, interleave, ratio
from ostler.wire.lines import LineSplitter
from ostler.wire.rpc import Notification, Peer

PORTION = 64 * 1024
MIB = 1024 * 1024


def updates(count: int, *, long_every: int = 0) -> bytes:
    """Text updates as an agent sends them; every `long_every`-th carries 16 KB."""

    def line(number: int) -> bytes:
        text = "x" * 16_000 if long_every and number % long_every == 0 else f"token {number} "
        content = {"type": "text", "text": text}
        update = {"sessionUpdate": "agent_message_chunk", "content": content}
        params = {"sessionId": "6f1c0a52-6b1e-4c55-9e39-0f5c5a1f9c11", "update": update}
        document = {"jsonrpc": "2.0", "method": "session/update", "params": params}
        return json.dumps(document, separators=(",", ":")).encode() + b"\n"

    return b"".join(map(line, range(count)))


def portions(text: bytes, size: int = PORTION) -> Iterator[bytes]:
    for at in range(0, len(text), size):
        yield text[at : at + size]


def by_peer(chunks: list[bytes]) -> int:
    peer: Peer[None] = Peer()
    return sum(isinstance(message, Notification) for chunk in chunks for message in peer.receive(chunk))


def by_json(text: bytes) -> int:
    stream = io.BytesIO(text)
    heard = 0
    while line := stream.readline():
        heard += json.loads(line).get("method") is not None
    return heard


def by_sdk(chunks: list[bytes]) -> int:
    heard = 0

    async def handler(*_message: object) -> None:
        nonlocal heard
        heard += 1

    async def listen() -> None:
        reader = asyncio.StreamReader(limit=32 * MIB)
        connection = Connection(handler, cast("asyncio.StreamWriter", _Nowhere()), reader, listening=False)
        for chunk in chunks:
            reader.feed_data(chunk)
        reader.feed_eof()
        await connection.main_loop()
        await asyncio.sleep(0)
        await connection.close()

    asyncio.run(listen())
    return heard


class _Nowhere:
    """A writer for a connection that only listens."""

    def write(self, data: bytes) -> None: ...

    async def drain(self) -> None: ...

    def close(self) -> None: ...

    async def wait_closed(self) -> None: ...


def per_update(count: int, text: bytes) -> dict[str, Sample]:
    chunks = list(portions(text))

    def heard_all(heard: int) -> None:
        if heard != count:
            raise AssertionError(f"{heard} of {count} updates were heard")

    return {
        "ostler peer": lambda: cpu_seconds(lambda: heard_all(by_peer(chunks))) / count * 1e6,
        "json readline loop": lambda: cpu_seconds(lambda: heard_all(by_json(text))) / count * 1e6,
        "acp sdk reader": lambda: cpu_seconds(lambda: heard_all(by_sdk(chunks))) / count * 1e6,
    }


def one_line(size: int, portion: int) -> float:
    """Nanoseconds per byte for one long line that arrives in small portions."""
    chunk = b"x" * portion
    count = size // portion
    splitter = LineSplitter()

    def feed() -> None:
        for _ in range(count):
            splitter.feed(chunk)
        splitter.feed(b"\n")

    return cpu_seconds(feed) / (count * portion) * 1e9


def hear_20_mib() -> float:
    """Milliseconds that the loop is held by the portion that completes a message of 20 MiB."""
    frame = Peer[None]().notify("session/update", {"text": "x" * (20 * MIB)})
    *most, last = portions(frame)
    peer: Peer[None] = Peer()
    for chunk in most:
        list(peer.receive(chunk))
    return cpu_seconds(lambda: list(peer.receive(last))) * 1e3


def run(quick: bool) -> Report:
    report = Report("bytes to message, CPU time")
    rounds, count = (3, 5_000) if quick else (11, 20_000)
    for label, long_every in (("short", 0), ("every 4th 16 KB", 4)):
        size = count // 5 if long_every else count
        samples = interleave(per_update(size, updates(size, long_every=long_every)), rounds=rounds)
        for name, figures in samples.items():
            report.row(f"{name}, {label}", "us/update", figures)
        ours = samples["ostler peer"]
        if not long_every:
            report.claim("framing and decode of a text update, us", report.rows[0].median, at_most=2.0)
            report.compare("A text update from bytes to message, CPU", "us", samples, against="acp sdk reader")
        loop = samples["json readline loop"]
        report.claim(f"faster than the json loop ({label}), times", ratio(loop, ours), at_least=1.0)
        report.claim(f"faster than the sdk ({label}), times", ratio(samples["acp sdk reader"], ours), at_least=3.0)
    grown = interleave(
        {"4": lambda: one_line(4 * MIB, 100), "32": lambda: one_line(32 * MIB - 100, 100)}, rounds=min(rounds, 5)
    )
    report.row("a 4 MiB line in 100 B portions", "ns/byte", grown["4"])
    report.row("a 32 MiB line in 100 B portions", "ns/byte", grown["32"])
    report.claim("8 x the line costs per byte, times", ratio(grown["32"], grown["4"]), at_most=3)
    held = report.row("a 20 MiB message holds the loop", "ms", [hear_20_mib() for _ in range(rounds)])
    report.claim("a 20 MiB message holds the loop, ms", held.median, at_most=50)
    return report
