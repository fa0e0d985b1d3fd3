"""What counting costs: a turn with metrics and without, and a scrape of thousands of series beside a living loop.

Rules: two gateways in processes of their own, short rounds by turns, every other round the other one first; processor
time as the kernel counts it, in nanoseconds. The lower quartiles are compared: whatever disturbs a round on a shared
machine only adds to it. A scrape is read while a probe asks the loop again and again how late it
is.
"""

import asyncio
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from statistics import median, quantiles

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.registry import Collector

from bench._gateway.client import Client
from bench._gateway.process import Running, gateway
from bench.measure import Report, interleave
from ostler.metrics.instruments import Instruments
from ostler.metrics.shelf import Shelf

SERIES = 5000


async def converse(port: int, count: int, name: str) -> None:
    """Turns of one conversation."""
    client = await Client.to(port)
    for _ in range(count):
        await client.ask("hello", conversation=name)
    await client.close()


def spent(running: Running, count: int, names: Callable[[], str]) -> float:
    """Microseconds of processor for each turn."""
    name = names()
    asyncio.run(converse(running.port, 5, name))
    before = running.cpu
    asyncio.run(converse(running.port, count, name))
    return (running.cpu - before) / count * 1e6


def turns(report: Report, *, quick: bool) -> None:
    """On and off, side by side."""
    numbers = iter(range(10**6))

    def names() -> str:
        return f"bench {next(numbers)}"

    with tempfile.TemporaryDirectory(prefix="ostler-bench-") as folder:
        (Path(folder) / "on").mkdir()
        (Path(folder) / "off").mkdir()
        with (
            gateway(Path(folder) / "on") as on,
            gateway(Path(folder) / "off", OSTLER_METRICS__ENABLED="false") as off,
        ):
            count = 60 if quick else 100
            cases = {
                "with metrics": partial(spent, on, count, names),
                "without": partial(spent, off, count, names),
            }
            found = interleave(cases, rounds=30 if quick else 60)
    for name, samples in found.items():
        report.row(f"gateway CPU of a turn, {name}", "us", samples)
    counted, bare = (quantiles(found[name], n=4)[0] for name in ("with metrics", "without"))
    report.claim("turn CPU with metrics against without", counted / bare, at_most=1.03)


def shelf_of(series: int) -> Shelf:
    """As many series as a large gateway may have, in the families that it really has."""
    shelf = Shelf(CollectorRegistry())
    instruments = Instruments(shelf)
    made = 0
    for number in range(10**6):
        provider, phase = f"provider{number % 40}", f"phase{number // 40 % 40}"
        instruments.turns.phases.of(provider, "pool", phase).observe(0.3, "resp_0123456789abcdef0123456789abcdef")
        instruments.pool.claims.of(provider, phase, "parked", "none").add()
        made += 16
        if made >= series:
            return shelf
    return shelf


async def beside(work: Callable[[], object]) -> tuple[float, float]:
    """(milliseconds of the work, the longest time the loop was away meanwhile)"""
    done, worst = False, 0.0

    async def probe() -> None:
        nonlocal worst
        last = time.perf_counter()
        while not done:
            await asyncio.sleep(0)
            now = time.perf_counter()
            worst, last = max(worst, now - last), now

    async with asyncio.TaskGroup() as group:
        group.create_task(probe())
        await asyncio.sleep(0)
        began = time.perf_counter()
        result = work()
        if asyncio.iscoroutine(result):
            await result
        took = time.perf_counter() - began
        done = True
    return took * 1000, worst * 1000


async def in_pieces(shelf: Shelf) -> bytes:
    """As `/metrics` does it."""
    pieces = []
    for piece in shelf.pieces(openmetrics=True):
        pieces.append(piece)
        await asyncio.sleep(0)
    return "".join(pieces).encode()


class Ours(CollectorRegistry):
    """A registry of one collector."""

    def __init__(self, collector: Collector) -> None:
        super().__init__()
        self.register(collector)


def scrapes(report: Report, *, quick: bool) -> None:
    """In pieces, and as the library would."""
    shelf = shelf_of(SERIES)
    lines = sum(not line.startswith("#") for line in "".join(shelf.pieces(openmetrics=True)).splitlines())
    registry = Ours(shelf)
    rounds = 20 if quick else 100

    async def threaded() -> None:
        await asyncio.to_thread(generate_latest, registry)

    ways: dict[str, Callable[[], object]] = {
        "in pieces": lambda: in_pieces(shelf),
        "generate_latest": lambda: generate_latest(registry),
        "generate_latest in a thread": threaded,
    }
    found = {name: [asyncio.run(beside(way)) for _ in range(rounds)] for name, way in ways.items()}
    report.notes.append(f"{lines} series")
    for name, pairs in found.items():
        report.row(f"scrape {name}", "ms", [took for took, _ in pairs])
        report.row(f"scrape {name}: loop away at worst", "ms", [away for _, away in pairs])
    report.claim("scrape of 5,000 series (ms)", median(took for took, _ in found["in pieces"]), at_most=60)
    report.claim("loop away during a scrape (ms)", median(away for _, away in found["in pieces"]), at_most=5)


def run(quick: bool) -> Report:
    """Both."""
    report = Report("metrics: what counting costs")
    scrapes(report, quick=quick)
    turns(report, quick=quick)
    return report
