"""What a turn costs besides the agent: a whole gateway in a process of its own, the demo agent, durable storage.

Rules: the client is raw asyncio over keep-alive connections, so that its own cost is small and the same for all rows.
The agent's own time is in every row; what it is alone is measured beside it, on the pool, in the same run.
"""

import asyncio
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles

import psutil

from bench.measure import Report
from ostler.pool import PoolSettings, ProviderSettings, TransportKey, open_pool

ADDRESS = re.compile(r"http://127\.0\.0\.1:(\d+)")
CLIENTS = 8
DELTAS = 20_000


@dataclass
class Client:
    """One keep-alive connection."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    @classmethod
    async def to(cls, port: int) -> "Client":
        return cls(*await asyncio.open_connection("127.0.0.1", port, limit=1 << 26))

    async def ask(self, text: str, **fields: object) -> bytes:
        """POST /v1/responses, the whole answer."""
        body = json.dumps({"model": "demo", "input": text, **fields}).encode()
        head = f"POST /v1/responses HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len(body)}\r\n\r\n"
        self.writer.write(head.encode() + body)
        answer = await self.reader.readuntil(b"\r\n\r\n")
        assert answer.startswith(b"HTTP/1.1 200"), answer
        if b"content-length" in answer:
            found = re.search(rb"content-length: (\d+)", answer)
            assert found is not None
            return await self.reader.readexactly(int(found[1]))
        return await self.reader.readuntil(b"\r\n0\r\n\r\n")

    async def close(self) -> None:
        self.writer.close()
        await self.writer.wait_closed()


@contextmanager
def gateway(folder: Path, **environ: str) -> Iterator[tuple[int, psutil.Process, float]]:
    """(port, process, seconds from the start to its first line)"""
    given = {"PATH": os.environ["PATH"], "HOME": str(folder), "OSTLER_LOG__LEVEL": "warning"}
    given["OSTLER_AUTH__PER_MINUTE"] = "10000000"
    given |= {"OSTLER_AUTH__CONCURRENCY": "1000", **environ}
    line = [sys.executable, "-m", "ostler.gateway", "serve", "--port", "0", "--data-dir", str(folder / "data")]
    started = time.monotonic()
    with subprocess.Popen(line, cwd=folder, env=given, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            found = ADDRESS.search(process.stdout.readline())
            assert found is not None
            yield int(found[1]), psutil.Process(process.pid), time.monotonic() - started
        finally:
            process.terminate()


async def turns(port: int, count: int, name: str) -> list[float]:
    """Seconds of each turn of one conversation."""
    client = await Client.to(port)
    await client.ask("hello", conversation=name)
    samples = []
    for _ in range(count):
        began = time.perf_counter()
        await client.ask("hello", conversation=name)
        samples.append(time.perf_counter() - began)
    await client.close()
    return samples


async def bare(folder: Path, count: int) -> list[float]:
    """Seconds of each turn on the pool alone."""
    settings = PoolSettings(providers={"demo": ProviderSettings(home=str(folder))})
    samples = []
    async with open_pool(settings, runtime_dir=folder / "bare") as pool:
        lease = await pool.lease(TransportKey("demo", "demo", str(folder)))
        for _ in range(count):
            began = time.perf_counter()
            async for _event in await lease.prompt("hello"):
                continue
            samples.append(time.perf_counter() - began)
        lease.release()
    return samples


async def crowd(port: int, count: int) -> float:
    """Turns a second of eight clients."""
    began = time.perf_counter()
    await asyncio.gather(*(turns(port, count, f"crowd {number}") for number in range(CLIENTS)))
    return CLIENTS * (count + 1) / (time.perf_counter() - began)


async def streamed(port: int, process: psutil.Process) -> float:
    """Gateway CPU microseconds for each delta."""
    client = await Client.to(port)
    await client.ask("hello", conversation="stream")
    before = sum(process.cpu_times()[:2])
    await client.ask(f"!stream {DELTAS}", conversation="stream", stream=True)
    await client.close()
    return (sum(process.cpu_times()[:2]) - before) / DELTAS * 1e6


def milliseconds(samples: list[float]) -> list[float]:
    return [sample * 1000 for sample in samples]


def run(quick: bool) -> Report:
    """A few hundred turns, or a few thousand."""
    report = Report("the gateway: what a turn costs besides its agent")
    rounds = 200 if quick else 1000
    with tempfile.TemporaryDirectory(prefix="ostler-bench-") as name, gateway(Path(name)) as (port, process, up):
        idle = process.memory_info().rss / 2**20
        alone = milliseconds(asyncio.run(bare(Path(name), rounds)))
        before = sum(process.cpu_times()[:2])
        whole = milliseconds(asyncio.run(turns(port, rounds, "one")))
        report.row("gateway CPU of a turn", "ms", [(sum(process.cpu_times()[:2]) - before) / (rounds + 1) * 1000])
        report.row("turn on the pool alone", "ms", alone)
        report.row("turn over HTTP, stored", "ms", whole)
        report.claim("turn overhead p50 (ms)", median(whole) - median(alone), at_most=3)
        report.claim("turn overhead p99 (ms)", percentile(whole, 99) - median(alone), at_most=12)
        first, last = whole[1 : rounds // 5], whole[-rounds // 5 :]
        report.claim("the last turns against the first ones", median(last) / median(first), at_most=1.5)
        report.claim("turns a second, 8 clients", asyncio.run(crowd(port, rounds // 4)), at_least=500)
        report.claim("gateway CPU per delta (us)", asyncio.run(streamed(port, process)), at_most=40)
        report.claim("seconds from start to serving", up, at_most=0.6)
        report.claim("RSS idle (MB)", idle, at_most=80)
        report.claim("RSS afterwards (MB)", process.memory_info().rss / 2**20, at_most=120)
    return report


def percentile(samples: list[float], share: int) -> float:
    """The value that so many percent do not exceed."""
    return quantiles(samples, n=100)[share - 1]
