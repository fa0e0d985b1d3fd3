"""Streams: what a delta costs, and whether any of 500 at once is starved.

Rules: what the agents themselves cannot do in time is measured on the pool alone, with the same prompts and as many
sessions in the same run; only what the gateway adds to it is its own.
"""

import asyncio
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

from bench._gateway.client import Client, listen
from bench._gateway.process import Running
from ostler.pool import PoolSettings, ProviderSettings, TransportKey, open_pool
from ostler.pool.events import Text
from ostler.pool.pool import TransportPool

PAUSE = 0.25
SETTLED = 2.0
"""Seconds after which all have begun."""
WATCHED = 3.0


@dataclass
class Gaps:
    """What the readers of many streams saw."""

    seconds: list[float] = field(default_factory=list)
    """Between two deltas of one stream."""
    whole: int = 0
    """Streams that were told everything."""

    def add(self, times: Sequence[float], *, whole: bool) -> None:
        """One stream is over."""
        self.seconds += [later - earlier for earlier, later in pairwise(times)]
        self.whole += whole


def paced(deltas: int) -> str:
    """A prompt that is answered with a delta, a pause, a delta..."""
    return "\n".join(["!stream 1", f"!sleep {PAUSE}"] * deltas)


async def many(running: Running, count: int, deltas: int) -> tuple[Gaps, float]:
    """So many streams over HTTP at once, each in a new session; and the gateway's CPU us for each of their deltas."""
    listeners = await asyncio.gather(*(listen(running.port, paced(deltas)) for _ in range(count)))
    await asyncio.sleep(SETTLED)
    cpu, before = running.cpu, sum(each.deltas for each in listeners)
    await asyncio.sleep(WATCHED)
    cpu, heard = running.cpu - cpu, sum(each.deltas for each in listeners) - before
    gaps = Gaps()
    for each in listeners:
        await each.over
        gaps.add(each.times, whole=each.completed and each.deltas >= deltas)
    return gaps, cpu / heard * 1e6


async def many_bare(folder: Path, count: int, deltas: int) -> Gaps:
    """The same on the pool alone."""
    gaps = Gaps()
    settings = PoolSettings(providers={"demo": ProviderSettings(home=str(folder))})
    async with open_pool(settings, runtime_dir=folder / "bare") as pool:
        await asyncio.gather(*(one_bare(pool, folder, deltas, gaps) for _ in range(count)))
    return gaps


async def one_bare(pool: TransportPool, folder: Path, deltas: int, gaps: Gaps) -> None:
    """One session and its stream."""
    async with await pool.lease(TransportKey("demo", "demo", str(folder))) as lease:
        turn = await lease.prompt(paced(deltas))
        # The newline between two answers comes together with the next one, and is none.
        times = [time.perf_counter() async for event in turn if isinstance(event, Text) and event.text.strip()]
    gaps.add(times, whole=len(times) >= deltas)


async def delta_cost(running: Running, deltas: int) -> float:
    """Gateway CPU microseconds for each delta of one fast stream."""
    client = await Client.to(running.port)
    await client.ask("hello", conversation="stream")
    before = running.cpu
    await client.ask(f"!stream {deltas}", conversation="stream", stream=True)
    await client.close()
    return (running.cpu - before) / deltas * 1e6
