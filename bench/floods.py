"""What one hostile client or agent costs everybody else: the p99 of `/healthz` and of other sessions' turns under each
attack, against the same on the calm gateway of the same run.

Rules: loopback only; every attack is bounded in time and in what it sends; all its processes are ours and end with it.
"""

import asyncio
import json
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

from bench._floods.clients import ATTACKS, BODIES
from bench._gateway.client import Client, request
from bench._gateway.process import Running, gateway
from bench.measure import Report

AGENT = Path(__file__).parent / "_floods" / "agent.py"
OVER = 50.0
"""Milliseconds that the p99 may rise."""
FLOODS = {
    "calls": 300_000,
    "open_calls": 300_000,
    "permissions": 20_000,
    "deltas": 300_000,
    "thoughts": 300_000,
    "plans": 50_000,
    "big_line": 100,
    "eight_mib_lines": 12,
    "values": 30,
    "junk": 200_000,
    "blank": 4,
    "requests": 100_000,
    "stderr": 100,
    "long_stderr": 100,
    "mcp": 200_000,
}
TOOL = {"type": "function", "name": "look", "description": "Look.", "parameters": {"type": "object", "properties": {}}}


@dataclass
class Seen:
    """Milliseconds that the others waited."""

    health: list[float] = field(default_factory=list)
    turns: list[float] = field(default_factory=list)


def p99(samples: Sequence[float]) -> float:
    """What 99 of 100 do not exceed."""
    ordered = sorted(samples)
    return ordered[min(len(ordered) - 1, int(len(ordered) * 0.99))]


async def look(port: int, into: list[float]) -> None:
    """Ask for its health, for ever."""
    client = await Client.to(port)
    while True:
        began = time.perf_counter()
        client.writer.write(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n\r\n")
        await client.reader.readuntil(b"}")
        into.append((time.perf_counter() - began) * 1000)
        await asyncio.sleep(0.005)


async def talk(port: int, name: str, into: list[float]) -> None:
    """One turn after another, for ever."""
    client = await Client.to(port)
    await client.ask("hello", conversation=name)
    while True:
        began = time.perf_counter()
        await client.ask("hello", conversation=name)
        into.append((time.perf_counter() - began) * 1000)
        await asyncio.sleep(0.01)


@asynccontextmanager
async def watched(port: int, name: str) -> AsyncIterator[Seen]:
    """What everybody else meets meanwhile."""
    seen = Seen()
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(look(port, seen.health))]
        tasks += [group.create_task(talk(port, f"{name} {number}", seen.turns)) for number in range(2)]
        await asyncio.sleep(0.5)
        seen.health.clear()
        seen.turns.clear()
        yield seen
        for task in tasks:
            task.cancel()


async def hostile_client(port: int, kind: str, seconds: float) -> None:
    """In a process of its own."""
    argv = [sys.executable, "-m", "bench._floods.clients", kind, str(port), str(seconds)]
    process = await asyncio.create_subprocess_exec(*argv, stdout=subprocess.DEVNULL, cwd=AGENT.parents[2])
    assert await process.wait() == 0, kind


async def hostile_agent(port: int, kind: str) -> None:
    """One turn with it, to its end, whatever that is."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 28)
    fields = {"tools": [TOOL]} if kind == "mcp" else {}
    writer.write(request(f"!flood {kind} {FLOODS[kind]}", **{"model": "acp/hostile", "store": True, **fields}))
    head = await reader.readuntil(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200"), (kind, head)
    writer.close()


async def attack(port: int, kind: str, seconds: float) -> Seen:
    """One of them, while others go on."""
    async with watched(port, kind) as seen:
        if kind in FLOODS:
            async with asyncio.timeout(300):
                await hostile_agent(port, kind)
            await asyncio.sleep(0.5)
        else:
            await hostile_client(port, kind, seconds)
    return seen


async def calm(port: int, seconds: float) -> Seen:
    """Nobody does any harm."""
    async with watched(port, "calm") as seen:
        await asyncio.sleep(seconds)
    return seen


def measured(report: Report, running: Running, kinds: Sequence[str], seconds: float) -> None:
    """Each against the calm before all."""
    quiet = asyncio.run(calm(running.port, seconds * 2))
    before_health, before_turns = p99(quiet.health), p99(quiet.turns)
    report.row("healthz, calm", "ms", quiet.health)
    report.row("turn, calm", "ms", quiet.turns)
    for kind in kinds:
        seen = asyncio.run(attack(running.port, kind, seconds))
        report.row(f"healthz, {kind}", "ms", seen.health)
        report.row(f"turn, {kind}", "ms", seen.turns)
        health, turns = p99(seen.health) - before_health, p99(seen.turns) - before_turns
        worst = f"max {max(seen.health):.0f} and {max(seen.turns):.0f} ms"
        print(f"  {kind}: p99 +{health:.1f} and +{turns:.1f} ms, {worst}, {running.memory:.0f} MB", flush=True)
        report.claim(f"{kind}: p99 of /healthz over calm (ms)", health, at_most=OVER)
        report.claim(f"{kind}: p99 of other turns over calm (ms)", turns, at_most=OVER)
    report.row("gateway, resident at the end", "MB", [running.memory])


def run(quick: bool) -> Report:
    """Every attack on one gateway."""
    return of(quick, [*BODIES, *ATTACKS, *FLOODS])


def of(quick: bool, kinds: Sequence[str]) -> Report:
    """These attacks."""
    report = Report("floods: what one hostile client or agent costs everybody else")
    given = {
        "OSTLER_POOL__PERMISSIONS": "auto",  # of the hostile agent nothing was measured
        "OSTLER_PROVIDERS__ACP__COMMAND": json.dumps([sys.executable, str(AGENT)]),
        "OSTLER_MODELS__DEMO": "demo/demo",
    }
    with tempfile.TemporaryDirectory(prefix="ostler-bench-") as name, gateway(Path(name), **given) as running:
        measured(report, running, kinds, 2 if quick else 6)
    return report
