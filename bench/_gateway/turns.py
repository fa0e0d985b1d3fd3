"""Turns one after another, beside the same turns on the pool alone; and many of them."""

import asyncio
import time
from pathlib import Path

from bench._gateway.client import Client
from bench._gateway.process import Running
from ostler.pool import PoolSettings, ProviderSettings, TransportKey, open_pool

CLIENTS = 8
YOUNG = 50
"""Turns that a young conversation has when it is replaced."""


async def timed(client: Client, name: str) -> float:
    """Seconds of one turn of this conversation."""
    began = time.perf_counter()
    await client.ask("hello", conversation=name)
    return time.perf_counter() - began


async def turns(port: int, count: int, name: str) -> list[float]:
    """Seconds of each turn of one conversation, the first one left out: it opens the seat."""
    client = await Client.to(port)
    await timed(client, name)
    samples = [await timed(client, name) for _ in range(count)]
    await client.close()
    return samples


async def bare(folder: Path, count: int) -> list[float]:
    """Seconds of each turn on the pool alone."""
    settings = PoolSettings(providers={"demo": ProviderSettings(home=str(folder))})
    samples = []
    key = TransportKey("demo", "demo", str(folder))
    async with open_pool(settings, runtime_dir=folder / "bare") as pool, await pool.lease(key) as lease:
        for _ in range(count):
            began = time.perf_counter()
            async for _event in await lease.prompt("hello"):
                continue
            samples.append(time.perf_counter() - began)
    return samples


async def crowd(port: int, count: int) -> float:
    """Turns a second of eight clients, after each has begun its conversation."""
    names = [f"crowd {number}" for number in range(CLIENTS)]
    await asyncio.gather(*(turns(port, 0, name) for name in names))
    began = time.perf_counter()
    await asyncio.gather(*(turns(port, count - 1, name) for name in names))
    return CLIENTS * count / (time.perf_counter() - began)


async def strangers(port: int, count: int) -> None:
    """Turns of new sessions, each with one turn and no name, every other one streamed."""

    async def some(share: int) -> None:
        client = await Client.to(port)
        for number in range(share):
            await client.ask("hello\n!stream 20", stream=number % 2 == 0)
        await client.close()

    await asyncio.gather(*(some(count // CLIENTS) for _ in range(CLIENTS)))


async def ages(running: Running, count: int) -> tuple[list[float], list[float]]:
    """Gateway CPU ms of the last turns up to the `count`-th, and of young conversations', taken in turns."""
    client = await Client.to(running.port)
    old: list[float] = []
    young: list[float] = []

    async def spent(name: str) -> float:
        before = running.cpu
        await client.ask("hello", conversation=name)
        return (running.cpu - before) * 1000

    for number in range(count - YOUNG):
        await timed(client, "old")
        if number == 0:
            await timed(client, "young")
    for _ in range(YOUNG):
        old.append(await spent("old"))
        young.append(await spent("young"))
    await client.close()
    return old, young
