"""The first prompt of a brand-new session, tools attached: every way to serve it, in turn, round by round.

"Bare" is the agent itself: a process that is up, driven directly on its pipe, with a session that is open and has
its tools. A pool cannot be faster; how much slower it is, is what the pool costs. Those two alternate in rounds of
their own, with nothing else running: the starts of the other ways would fall on one of them.
"""

import asyncio
from pathlib import Path
from statistics import median
from time import monotonic, perf_counter

from bench._pool.acpx import first_answer
from bench._pool.ground import TOOLS, Ground, House, first_text, open_house
from bench._pool.plain import PlainSession
from bench.measure import Report
from ostler.pool import Limits, PoolSettings, ToolSet, TransportKey, WarmKey
from ostler.pool.providers import load

CALM = 0.5
"""Seconds before each measure, so that none pays for what the one before left to be done."""
GENEROUS = Limits(max_processes=70, max_processes_per_key=3, starts_per_second=1000.0, start_burst=100)


async def through(deps: House, key: TransportKey, name: str, tools: ToolSet = TOOLS) -> tuple[float, str]:
    """One new session through a pool: seconds to its first text, and how warm it was."""
    began = perf_counter()
    lease = await deps.pool.lease(key, tools=tools)
    deps.publish(lease, name, tools)
    said_at, answer = await first_text(lease, f"hello {name}")
    assert answer == f"echo: hello {name}", answer
    lease.release()
    return said_at - began, lease.warmth


async def run(ground: Ground, report: Report) -> None:
    """Adds the figures."""
    settings = PoolSettings(limits=GENEROUS, warm=(WarmKey(ground.key, TOOLS, 2),))
    async with open_house(ground, settings) as deps:
        starts = await from_nothing(ground, deps, rounds=2 if ground.quick else 3, within=15)
        warm = await already_up(ground, deps, rounds=8 if ground.quick else 16)
    for name, seconds in {**starts, **warm}.items():
        report.row(f"first text of a new session, {name}", "ms", [one * 1e3 for one in seconds])
    cold, parked, bare = median(starts["pool cold"]), median(warm["pool parked"]), median(warm["agent bare"])
    report.claim("first text: pool cold / pool parked, times", cold / parked, at_least=15)
    report.claim("first text: pool parked / agent bare", parked / bare, at_most=1.3)


async def from_nothing(ground: Ground, deps: House, *, rounds: int, within: float) -> dict[str, list[float]]:
    """Seconds of every way that starts a process; no more rounds than there is time for."""
    took: dict[str, list[float]] = {"plain client": [], "pool off": [], "pool cold": []}
    if ground.acpx is not None:
        took["acpx"] = []
    began = monotonic()
    async with open_house(ground, PoolSettings(enabled=False, limits=GENEROUS)) as off:
        for number in range(rounds):
            if number > 1 and monotonic() - began > within:
                break
            took["plain client"].append(await plain(ground, deps, f"plain-{number}"))
            await asyncio.sleep(CALM)
            took["pool off"].append((await through(off, ground.key, f"off-{number}"))[0])
            took["pool cold"].append(await cold(ground, deps, f"cold-{number}"))
            if ground.acpx is not None:
                took["acpx"].append(await rival(ground, ground.acpx, f"acpx-{number}"))
    return took


async def already_up(ground: Ground, deps: House, *, rounds: int) -> dict[str, list[float]]:
    """Seconds of a parked seat, and of the bare agent in the very same state; the first round of each warms up."""
    took: dict[str, list[float]] = {"pool parked": [], "agent bare": []}
    bare = await PlainSession.open(ground.launch(), ground.work, deps.bridge, "bare")
    try:
        for number in range(rounds + 1):
            figures = {
                "pool parked": await parked(ground, deps, f"parked-{number}"),
                "agent bare": await turn(ground, deps, bare, f"bare-{number}"),
            }
            for name, seconds in figures.items():
                took[name] += [seconds] if number else []
    finally:
        await bare.end()
    return took


async def plain(ground: Ground, deps: House, name: str) -> float:
    await asyncio.sleep(CALM)
    began = perf_counter()
    session = await PlainSession.open(ground.launch(), ground.work, deps.bridge, name)
    said_at, _ = await session.first_text(f"hello {name}", load()[ground.provider].strips)
    await session.end()
    return said_at - began


async def rival(ground: Ground, acpx: Path, name: str) -> float:
    await asyncio.sleep(CALM)
    command = ground.launch().command
    seconds, answer = await first_answer(acpx, command.argv, command.env, ground.work, f"hello {name}")
    assert answer == f"echo: hello {name}", answer
    return seconds


async def cold(ground: Ground, deps: House, name: str) -> float:
    """A key that nobody has asked for; its process goes when it was measured."""
    await asyncio.sleep(CALM)
    folder = ground.folder / name
    folder.mkdir()
    key = TransportKey(ground.key.provider, ground.key.model, str(folder))
    seconds, warmth = await through(deps, key, name)
    assert warmth == "cold", warmth
    deps.pool.pause(key)
    deps.pool.drain(key)
    await deps.settled(lambda: all(one.key != str(key) for one in deps.pool.snapshot().processes))
    return seconds


async def parked(ground: Ground, deps: House, name: str, seats: int = 2) -> float:
    await deps.settled(lambda: deps.parked() >= seats)
    await asyncio.sleep(CALM)
    seconds, warmth = await through(deps, ground.key, name)
    assert warmth == "parked", warmth
    return seconds


async def turn(ground: Ground, deps: House, bare: PlainSession, name: str) -> float:
    """On a session that was opened when the one before was used, as the pool does it."""
    await asyncio.sleep(CALM)
    began = perf_counter()
    said_at, _ = await bare.first_text(f"hello {name}")
    await asyncio.sleep(CALM)
    await bare.sit(ground.work, deps.bridge, name)
    return said_at - began
