"""What counting costs: a turn that is counted and one that is not, and a scrape of thousands of series beside a loop.

Rules: one gateway that counts and does not count by turns, in blocks of a few turns; processor time of the whole
process, in nanoseconds. What is claimed is the median of the differences of neighbours, and how much it is in doubt;
and beside it what the instruments of a turn take when they are called alone, which has no noise worth mentioning. A
scrape is read while a probe asks the loop again and again how late it is.
"""

import asyncio
import math
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from statistics import median, quantiles, stdev

from prometheus_client import CollectorRegistry
from starlette.types import Message, Receive, Scope, Send

from bench._gateway.client import Client
from bench._gateway.switched import Switchable, switchable
from bench.measure import Report, cpu_seconds
from ostler.gateway.cli.serve import SWITCH
from ostler.gateway.model.correlation import NONE
from ostler.gateway.model.outcome import TurnOutcome, TurnStatus
from ostler.gateway.ops.gauges.observers import EXAMPLE, StoreGauges, TurnGauges
from ostler.gateway.ops.gauges.requests import RequestMetrics
from ostler.gateway.turns.reports import TurnReport
from ostler.gateway.turns.timings import TurnTimings
from ostler.metrics.instruments import Instruments
from ostler.metrics.registry import MetricRegistry
from ostler.pool.events import Usage
from ostler.pool.keys import TransportKey

SERIES = 5000
BLOCK = 4
"""Turns between two looks at the clock of the processor."""
FRESH = 25
"""Rounds of one conversation."""


def calm(samples: Sequence[float]) -> float:
    """What it costs when nobody disturbs."""
    return quantiles(samples, n=10)[0]


async def blocks(gateway: Switchable, rounds: int) -> tuple[list[float], list[float]]:
    """Microseconds of processor for a turn while it is counted and while it is not: short blocks by turns, every other
    round the other way round. The conversation is changed from time to time, and its first turns are nobody's."""
    client = await Client.to(gateway.port)
    took: dict[bool, list[float]] = {True: [], False: []}
    for number in range(rounds):
        name = f"bench {number // FRESH}"
        if number % FRESH == 0:
            await chat(client, name, BLOCK)
        for on in (True, False) if number % 2 else (False, True):
            before = gateway.count(on)
            await chat(client, name, BLOCK)
            took[on].append((gateway.count(on) - before) / BLOCK)
    await client.close()
    return took[True], took[False]


async def chat(client: Client, name: str, turns: int) -> None:
    """Turns of one conversation."""
    for _ in range(turns):
        await client.ask("hello", conversation=name)


def error_of(samples: Sequence[float], boxes: int = 20) -> float:
    """The standard error of their median: what the medians of so many parts of the run scatter by."""
    size = len(samples) // boxes
    parts = [median(samples[at : at + size]) for at in range(0, size * boxes, size)]
    return stdev(parts) / math.sqrt(boxes)


def turns(report: Report, *, quick: bool) -> None:
    """What counting adds to a turn: as a difference, on and off in one run of one process; and by itself."""
    with tempfile.TemporaryDirectory(prefix="ostler-bench-") as folder, switchable(Path(folder)) as gateway:
        on, off = asyncio.run(blocks(gateway, 300 if quick else 1500))
    added = [counted - bare for counted, bare in zip(on, off, strict=True)]
    report.row("gateway CPU of a turn, counted", "us", on)
    report.row("gateway CPU of a turn, not counted", "us", off)
    report.row("added by counting, pair by pair", "us", added)
    bare, doubt = median(off), error_of(added)
    report.notes.append(f"added: {median(added):.1f} +- {doubt:.1f} us of {bare:.0f} us ({median(added) / bare:.1%})")
    # What a noisy machine leaves in doubt is not held against the gateway; a run in much doubt proves nothing.
    report.claim("added by counting, as a share of the turn", max(0.0, median(added) - doubt) / bare, at_most=0.03)
    report.claim("doubt of that, as a share of the turn", doubt / bare, at_most=0.02)
    alone = [cpu_seconds(partial(count_turns, 2000)) / 2000 * 1e6 for _ in range(5 if quick else 15)]
    report.row("counting one turn, by itself", "us", alone)
    report.claim("counting by itself, as a share of the turn", median(alone) / bare, at_most=0.03)


def count_turns(times: int) -> None:
    """All that is counted for a turn over HTTP on the session's own seat, and nothing else."""
    instruments = Instruments(MetricRegistry(CollectorRegistry()))
    turns, store = TurnGauges(instruments.turns, instruments.pool), StoreGauges(instruments.store)
    timings = TurnTimings(time.monotonic)
    for mark in (timings.begin, timings.store, timings.sit, timings.prompt, timings.speak):
        mark()
    facts, key = timings.report("session", "turn"), TransportKey("demo", "default", "/tmp")
    outcome = TurnOutcome(TurnStatus.COMPLETED, usage=Usage(3, 4))
    report = TurnReport("session", "turn", key, outcome, facts, timings, NONE)
    meter = RequestMetrics(answering, instruments.gateway)

    async def all_of_them() -> None:
        for _ in range(times):
            await meter({"type": "http", "method": "POST"}, silence, into_nothing)
            turns.turn_ended(report)
            for _ in range(4):
                store.stored((0.001,))

    asyncio.run(all_of_them())


async def answering(_scope: Scope, _receive: Receive, send: Send) -> None:
    """An application that has its answer ready."""
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"application/json")]})
    await send({"type": "http.response.body", "body": b""})


async def silence() -> Message:
    """A client that says no more."""
    return {"type": "http.request"}


async def into_nothing(_message: Message) -> None:
    """A client that hears nothing."""


def registry_of(series: int) -> MetricRegistry:
    """As many series as a large gateway may have, in the families that it really has."""
    instruments_registry = MetricRegistry(CollectorRegistry())
    instruments = Instruments(instruments_registry)
    made, example = 0, {EXAMPLE: "resp_0123456789abcdef0123456789abcdef"}
    for number in range(10**6):
        provider, phase = f"provider{number % 40}", f"phase{number // 40 % 40}"
        instruments.turns.phases.of(provider, "pool", phase).observe(0.3, example)
        instruments.pool.claims.of(provider, phase, "parked", "none").inc()
        made += 16
        if made >= series:
            return instruments_registry
    return instruments_registry


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


async def in_thread(instruments_registry: MetricRegistry, *, openmetrics: bool) -> None:
    """As `/metrics` does it."""
    await asyncio.to_thread(instruments_registry.exposition, openmetrics=openmetrics)


def scrapes(report: Report, *, quick: bool) -> None:
    """In a thread, as `/metrics` writes it, and on the loop; threads are switched as `ostler serve` does it."""
    instruments_registry = registry_of(SERIES)
    text = instruments_registry.exposition(openmetrics=True).decode()
    report.notes.append(f"{sum(not line.startswith('#') for line in text.splitlines())} series")
    rounds = 20 if quick else 100
    ways: dict[str, Callable[[], object]] = {
        "in a thread": lambda: in_thread(instruments_registry, openmetrics=True),
        "in a thread, text format": lambda: in_thread(instruments_registry, openmetrics=False),
        "on the loop": lambda: instruments_registry.exposition(openmetrics=True),
    }
    before = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH)
    found = {name: [asyncio.run(beside(way)) for _ in range(rounds)] for name, way in ways.items()}
    sys.setswitchinterval(before)
    for name, pairs in found.items():
        report.row(f"scrape {name}", "ms", [took for took, _ in pairs])
        report.row(f"scrape {name}: loop away at worst", "ms", [away for _, away in pairs])
    report.claim("scrape of 5,000 series (ms)", calm([took for took, _ in found["in a thread"]]), at_most=60)
    report.claim("loop away during a scrape (ms)", calm([away for _, away in found["in a thread"]]), at_most=5)


def run(quick: bool) -> Report:
    """Both."""
    report = Report("metrics: what counting costs")
    scrapes(report, quick=quick)
    turns(report, quick=quick)
    return report
