"""Turns and deltas a second over HTTP: pool on, pool off, and the agent driven directly on its pipe, in turns.

Rules: eight clients on keep-alive connections, the demo agent, durable storage; what the agent cannot do on its bare
pipe no gateway can. "Running" conversations have their seats; "new" sessions have one turn and are never seen again,
and the plain client starts a process for each. The pool off gives every session a process of its own, through the same
door; for new sessions it would show its limit of two starts a second and nothing else, and is left out.
"""

import asyncio
import tempfile
import time
from pathlib import Path
from statistics import quantiles

from bench._gateway.client import Client
from bench._gateway.pipe import pipe
from bench._gateway.process import Running, gateway
from bench._gateway.turns import CLIENTS, turns
from bench.measure import Report, Sample, interleave

Rates = dict[str, Sample]


def run(quick: bool) -> Report:
    """All of them."""
    report = Report("turns over HTTP: pool on, pool off, and the agent on its bare pipe")
    rounds = 2 if quick else 5
    with tempfile.TemporaryDirectory(prefix="ostler-bench-") as name:
        folder = Path(name)
        for part in ("on", "off"):
            (folder / part).mkdir()
        with gateway(folder / "on") as on, gateway(folder / "off", OSTLER_TRANSPORT_POOL_ENABLED="0") as off:
            running(report, folder, on, off, rounds=rounds, count=40 if quick else 150)
            newcomers(report, folder, on, rounds=rounds, count=4 if quick else 10)
            deltas(report, folder, on, off, rounds=rounds, count=5_000 if quick else 20_000)
    return report


def running(report: Report, folder: Path, on: Running, off: Running, *, rounds: int, count: int) -> None:
    """Turns a second, and how long the slowest of a hundred takes."""
    slow: dict[str, list[float]] = {"pool on": [], "pool off": []}

    def over_http(name: str, there: Running) -> Sample:
        def once() -> float:
            rate, spans = asyncio.run(crowd(there.port, count))
            slow[name].append(quantiles(spans, n=100)[98] * 1e3)
            return rate

        return once

    cases: Rates = {"pool on": over_http("pool on", on), "pool off": over_http("pool off", off)}
    cases["agent on its pipe"] = lambda: asyncio.run(crowd_on_pipe(folder, count))
    found = interleave(cases, rounds=rounds)
    title = f"Turns of running conversations over HTTP, {CLIENTS} clients"
    report.compare(title, "per s", found, against="pool off", more=True)
    report.compare(f"{title}, p99", "ms", {name: spans[-rounds:] for name, spans in slow.items()}, against="pool off")


def newcomers(report: Report, folder: Path, on: Running, *, rounds: int, count: int) -> None:
    """Sessions that have one turn."""
    cases: Rates = {
        "pool on": lambda: asyncio.run(strangers(on.port, count)),
        "plain client, no HTTP": lambda: asyncio.run(plain_strangers(folder, count)),
    }
    found = interleave(cases, rounds=rounds)
    title = f"First turns of new sessions over HTTP, {CLIENTS} clients"
    report.compare(title, "per s", found, against="plain client, no HTTP", more=True)


def deltas(report: Report, folder: Path, on: Running, off: Running, *, rounds: int, count: int) -> None:
    """One fast stream."""
    cases: Rates = {
        "pool on": lambda: asyncio.run(stream(on.port, count)),
        "pool off": lambda: asyncio.run(stream(off.port, count)),
        "agent on its pipe": lambda: asyncio.run(stream_on_pipe(folder, count)),
    }
    found = interleave(cases, rounds=rounds)
    report.compare("Deltas of one stream over HTTP", "per s", found, against="agent on its pipe", more=True)


async def crowd(port: int, count: int) -> tuple[float, list[float]]:
    """Turns a second of eight clients whose conversations have begun, and the seconds of each turn."""
    names = [f"crowd {number}" for number in range(CLIENTS)]
    await asyncio.gather(*(turns(port, 0, name) for name in names))
    began = time.perf_counter()
    spans = await asyncio.gather(*(turns(port, count - 1, name) for name in names))
    return CLIENTS * count / (time.perf_counter() - began), [span for each in spans for span in each]


async def crowd_on_pipe(folder: Path, count: int) -> float:
    """The same without anything between."""
    async with pipe(folder) as agent:
        sessions = [await agent.session(folder) for _ in range(CLIENTS)]

        async def talk(session: str) -> None:
            for _ in range(count):
                await agent.prompt(session, "hello")

        began = time.perf_counter()
        await asyncio.gather(*map(talk, sessions))
        return CLIENTS * count / (time.perf_counter() - began)


async def strangers(port: int, count: int) -> float:
    """New sessions a second."""

    async def visit() -> None:
        client = await Client.to(port)
        for _ in range(count):
            await client.ask("hello")
        await client.close()

    began = time.perf_counter()
    await asyncio.gather(*(visit() for _ in range(CLIENTS)))
    return CLIENTS * count / (time.perf_counter() - began)


async def plain_strangers(folder: Path, count: int) -> float:
    """A process for each."""

    async def visit() -> None:
        for _ in range(count):
            async with pipe(folder) as agent:
                await agent.prompt(await agent.session(folder), "hello")

    began = time.perf_counter()
    await asyncio.gather(*(visit() for _ in range(CLIENTS)))
    return CLIENTS * count / (time.perf_counter() - began)


async def stream(port: int, count: int) -> float:
    """Deltas a second of one conversation, from the question to the last byte."""
    client = await Client.to(port)
    await client.ask("hello", conversation="stream")
    began = time.perf_counter()
    await client.ask(f"!stream {count}", conversation="stream", stream=True)
    took = time.perf_counter() - began
    await client.close()
    return count / took


async def stream_on_pipe(folder: Path, count: int) -> float:
    """The same without anything between; the deltas are counted, not believed."""
    async with pipe(folder) as agent:
        session = await agent.session(folder)
        await agent.prompt(session, "hello")
        before, began = agent.heard, time.perf_counter()
        await agent.prompt(session, f"!stream {count}")
        took = time.perf_counter() - began
        assert agent.heard - before >= count, agent.heard - before
    return count / took
