"""What sharing processes gives a session, through the whole gateway: first turns, later turns, memory; pool on and off.

Rules: the demo agent needs a known time to boot, and answers at once, so whatever a turn takes is the gateway's or the
boot. First turns are of a directory that nobody has used: one whose process was started ahead, or one that is cold.
"""

import asyncio
import json
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from statistics import median, quantiles

import psutil

from bench._gateway.client import Client
from bench._gateway.process import Running, gateway
from bench._gateway.turns import turns
from bench.measure import Report
from ostler.process.tree import measure

BOOT = 0.5
"""Seconds from the start of an agent's program to its first look at a request."""
ROOM = 128
MIB = 1 << 20


@contextmanager
def sharing(folder: Path, *, pool: bool, boot: float = BOOT, warm: Sequence[Path] = ()) -> Iterator[Running]:
    """A gateway whose agents take a while to boot, with a process ready in each of the directories `warm`."""
    folder.mkdir()
    given = {
        "OSTLER_POOL__ENABLED": str(pool).lower(),
        "OSTLER_POOL__MAX_PROCESSES": str(ROOM),
        "OSTLER_POOL__MAX_PROCESSES_PER_KEY": str(ROOM),
        "OSTLER_POOL__WARM": json.dumps([{"model": "demo", "cwd": str(place)} for place in warm]),
        "OSTLER_PROVIDERS__DEMO__ARGS": json.dumps(["--boot-delay", str(boot)]),
    }
    with gateway(folder, **given) as running:
        yield running


def directories(folder: Path, name: str, count: int) -> list[Path]:
    """So many empty ones."""
    places = [folder / f"{name}-{number}" for number in range(count)]
    for place in places:
        place.mkdir()
    return places


async def first_turn(port: int, cwd: Path) -> float:
    """Seconds of the first turn of a new session in this directory."""
    client = await Client.to(port)
    began = time.perf_counter()
    await client.ask("hello", metadata={"cwd": str(cwd)})
    took = time.perf_counter() - began
    await client.close()
    return took


def agents(running: Running) -> list[int]:
    """The agent processes of this gateway."""
    found = []
    for child in running.process.children(recursive=True):
        try:
            line = child.cmdline()
        except psutil.NoSuchProcess:
            continue
        if "agent" in line and "demo" in line:
            found.append(child.pid)
    return found


async def wait_for_agents(running: Running, count: int, seconds: float = 120.0) -> None:
    """Until so many are there."""
    async with asyncio.timeout(seconds):
        while len(agents(running)) < count:  # noqa: ASYNC110 - a process table sends no events
            await asyncio.sleep(0.05)


async def begin(port: int, names: Sequence[str]) -> None:
    """A session each, all at once, which keeps its seat."""

    async def one(name: str) -> None:
        client = await Client.to(port)
        await client.ask("hello", conversation=name)
        await client.close()

    await asyncio.gather(*map(one, names))


def memory(running: Running) -> float:
    """MiB of all agents, common pages shared out."""
    return measure(agents(running)).pss / MIB


async def first_turns(running: Running, warm: Sequence[Path], cold: Sequence[Path]) -> tuple[list[float], list[float]]:
    """Seconds of first turns: where a process was started ahead, and where none was; one after the other."""
    await wait_for_agents(running, len(warm))
    ahead, behind = [], []
    for ready, unknown in zip(warm, cold, strict=True):
        ahead.append(await first_turn(running.port, ready))
        behind.append(await first_turn(running.port, unknown))
    return ahead, behind


def grown(running: Running, counts: Sequence[int]) -> Iterator[tuple[int, int, float]]:
    """(sessions, agent processes, MiB) as sessions come to be."""
    begun = 0
    for count in counts:
        asyncio.run(begin(running.port, [f"session {number}" for number in range(begun, count)]))
        begun = count
        yield count, len(agents(running)), memory(running)


def p99(samples: Sequence[float]) -> float:
    return quantiles(samples, n=100)[98]


def firsts(report: Report, folder: Path, rounds: int) -> None:
    """Pre-warmed against cold."""
    warm, cold = directories(folder, "warm", rounds), directories(folder, "cold", rounds)
    with sharing(folder / "firsts", pool=True, warm=warm) as running:
        ahead, behind = asyncio.run(first_turns(running, warm, cold))
    found = {"pre-warmed": [one * 1e3 for one in ahead], "cold": [one * 1e3 for one in behind]}
    report.compare("first answer over HTTP, agent that boots in 0.5 s", "ms", found, against="cold")
    won = median(behind) - median(ahead)
    report.claim("pre-warmed beats cold, in boot times of the agent", won / BOOT, at_least=1)


def sizes(report: Report, folder: Path, counts: Sequence[int], rounds: int) -> None:
    """Turns and memory, with the pool and without."""
    held: dict[str, float] = {}
    for name, pool in (("pool", True), ("no pool", False)):
        with sharing(folder / name.replace(" ", "-"), pool=pool) as running:
            for sessions, processes, size in grown(running, counts):
                report.row(f"{name}: memory of the agents at {sessions} sessions", "MiB", [size])
                wanted = 1 if pool else sessions
                report.claim(f"{name}: agents at {sessions} sessions", processes, at_least=wanted, at_most=wanted)
                held[name] = size
            took = [one * 1e3 for one in asyncio.run(turns(running.port, rounds, "session 0"))]
        report.row(f"{name}: a turn of a session with a seat", "ms", took)
        report.row(f"{name}: the same, p99", "ms", [p99(took)])
    last = counts[-1]
    report.headline(
        f"memory of the agents at {last} sessions", "MiB", held, held["no pool"] / held["pool"], against="no pool"
    )


def run(quick: bool) -> Report:
    """All of it."""
    report = Report("sharing: first turns, later turns and memory, with the pool and without")
    with tempfile.TemporaryDirectory(prefix="ostler-bench-") as name:
        firsts(report, Path(name), 4 if quick else 12)
        sizes(report, Path(name), (1, 10) if quick else (1, 10, 50), 100 if quick else 500)
    return report
