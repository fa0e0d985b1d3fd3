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

SLOW, BRISK = 0.25, 0.125
"""Seconds between two deltas of one stream."""
LOOKS, LOOK = 7, 0.5
"""How often a load is looked at, and for how many seconds: a whole number of beats of any stream."""


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


@dataclass(frozen=True)
class Load:
    """What deltas cost the gateway."""

    deltas: int
    cpu: float
    """Seconds of processor time for them."""

    @property
    def each(self) -> float:
        """Microseconds for each of them."""
        return self.cpu / self.deltas * 1e6

    def __sub__(self, other: "Load") -> "Load":
        return Load(self.deltas - other.deltas, self.cpu - other.cpu)


@dataclass(frozen=True)
class Run:
    """Many streams at once."""

    gaps: Gaps
    amid: Load
    """In half a second in which all of them were under way."""
    whole: Load
    """From the first request to the last byte: their turns too."""


def paced(deltas: int, pause: float) -> str:
    """A prompt that is answered with a delta, a pause, a delta... Each comes alone."""
    return "\n".join(["x", f"!sleep {pause}"] * deltas)


async def many(running: Running, count: int, deltas: int, pause: float) -> Run:
    """So many streams over HTTP at once, each in a new session."""
    before = running.cpu
    listeners = await asyncio.gather(*(listen(running.port, paced(deltas, pause)) for _ in range(count)))

    def now() -> Load:
        return Load(sum(each.deltas for each in listeners), running.cpu)

    await asyncio.gather(*(each.under_way.wait() for each in listeners))
    seen = [now()]
    for _ in range(LOOKS):
        await asyncio.sleep(LOOK)
        seen.append(now())
    # That of middle cost: what the machine does beside it falls into some of them.
    amid = sorted((later - earlier for earlier, later in pairwise(seen)), key=lambda load: load.each)[LOOKS // 2]
    assert not any(each.completed for each in listeners), "the streams are too short to be watched for so long"
    gaps = Gaps()
    for each in listeners:
        await each.over
        gaps.add(each.times, whole=each.completed and each.deltas >= deltas)
    return Run(gaps, amid, now() - Load(0, before))


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
        turn = await lease.prompt(paced(deltas, SLOW))
        times = [time.perf_counter() async for event in turn if isinstance(event, Text)]
    gaps.add(times, whole=len(times) >= deltas)


async def delta_cost(running: Running, deltas: int) -> float:
    """Gateway CPU microseconds for each delta of one fast stream."""
    client = await Client.to(running.port)
    await client.ask("hello", conversation="stream")
    before = running.cpu
    await client.ask(f"!stream {deltas}", conversation="stream", stream=True)
    await client.close()
    return (running.cpu - before) / deltas * 1e6
