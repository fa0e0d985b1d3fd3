"""The first prompt of a brand-new session, tools attached: every way to serve it, in turn, round by round.

"Bare" is the agent itself: a process that is up, driven directly on its pipe, with a session that is open and has its
tools. A pool cannot be faster; how much slower it is, is what the pool costs.
"""

import asyncio
from pathlib import Path
from statistics import median
from time import perf_counter

from bench._pool.ground import TOOLS, Ground, House, first_text, open_house
from bench._pool.plain import PlainSession
from bench.measure import Report, ratio
from ostler.pool import Limits, PoolSettings, TransportKey, WarmKey

CALM = 0.3
"""Seconds between the ways, so that none pays for what the one before left to be done."""
GENEROUS = Limits(max_processes=70, max_processes_per_key=3, starts_per_second=1000.0, start_burst=100)


async def through(house: House, key: TransportKey, number: int) -> tuple[float, str]:
    """One new session through a pool: seconds to its first text, and how warm it was."""
    began = perf_counter()
    lease = await house.pool.lease(key, tools=TOOLS)
    house.publish(lease, f"session-{number}")
    said_at, answer = await first_text(lease, f"hello {number}")
    assert answer == f"echo: hello {number}", answer
    lease.release()
    return said_at - began, lease.warmth


async def run(ground: Ground, report: Report) -> float:
    """Adds the figures; returns the seconds of a cold start."""
    rounds = 4 if ground.quick else 12
    took: dict[str, list[float]] = {
        name: [] for name in ("plain client", "pool off", "pool cold", "pool parked", "agent bare")
    }
    settings = PoolSettings(limits=GENEROUS, warm=(WarmKey(ground.key, TOOLS, 2),))
    async with open_house(ground, settings) as house, open_house(ground, PoolSettings(False, GENEROUS)) as off:
        plan = ground.launch()
        bare = await PlainSession.open(plan, ground.work, house.bridge, "bare")
        try:
            for number in range(-1, rounds):
                figures = {
                    "plain client": await plain(ground, house, number),
                    "pool off": (await through(off, ground.key, number))[0],
                    "pool cold": await cold(ground, house, number),
                    "pool parked": await parked(ground, house, number),
                    "agent bare": await turn(ground, house, bare, number),
                }
                if number >= 0:
                    for name, seconds in figures.items():
                        took[name].append(seconds)
        finally:
            await bare.end()
    for name, seconds in took.items():
        report.row(f"first text of a new session, {name}", "ms", [one * 1e3 for one in seconds])
    times = ratio(took["pool cold"], took["pool parked"])
    report.claim("first text: cold / parked, times", times, at_least=15)
    report.claim("first text: parked / agent bare", ratio(took["pool parked"], took["agent bare"]), at_most=1.3)
    return median(took["pool cold"])


async def plain(ground: Ground, house: House, number: int) -> float:
    await asyncio.sleep(CALM)
    began = perf_counter()
    session = await PlainSession.open(ground.launch(), ground.work, house.bridge, f"plain-{number}")
    said_at, _ = await session.first_text(f"hello {number}")
    await session.end()
    return said_at - began


async def cold(ground: Ground, house: House, number: int) -> float:
    """A key that nobody has asked for; its process goes when it was measured."""
    await asyncio.sleep(CALM)
    folder = ground.folder / f"cold-{number}"
    folder.mkdir()
    key = TransportKey(ground.key.provider, ground.key.model, str(Path(folder)))
    seconds, warmth = await through(house, key, number)
    assert warmth == "cold", warmth
    house.pool.pause(key)
    house.pool.drain(key)
    return seconds


async def parked(ground: Ground, house: House, number: int) -> float:
    await house.settled(lambda: house.parked() >= 2)
    await asyncio.sleep(CALM)
    seconds, warmth = await through(house, ground.key, number)
    assert warmth == "parked", warmth
    return seconds


async def turn(ground: Ground, house: House, bare: PlainSession, number: int) -> float:
    await bare.sit(ground.work, house.bridge, f"bare-{number}")
    await asyncio.sleep(CALM)
    began = perf_counter()
    said_at, _ = await bare.first_text(f"hello {number}")
    return said_at - began
