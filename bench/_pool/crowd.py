"""Many new sessions at once, tools attached: how long each waits for its first text, how many processes serve them,
and what the memory of twenty is.

The plain client's processes get a primed HOME each: on one HOME they would fight for gemini's registry lock as
well, and the comparison would be even more in our favour.
"""

import asyncio
from time import perf_counter

from bench._pool.first_prompt import GENEROUS
from bench._pool.ground import MIB, TOOLS, Ground, House, first_text, open_house, tree_pss
from bench._pool.plain import PlainSession
from bench.measure import Report
from ostler.pool import Lease, PoolSettings, WarmKey

FEW = 20
AHEAD = 3
"""One seat in so many is parked when the crowd comes: sixteen of fifty, the most that a reserve holds by default."""


async def run(ground: Ground, report: Report) -> None:
    """Adds the figures of the crowd and of the memory of twenty."""
    count = 12 if ground.quick else 50
    few = 6 if ground.quick else FEW
    one = await together(ground, few)
    shared, processes = await pooled(ground, count)
    separate, separate_memory = await apart(ground, count, few)
    off = await switched_off(ground, count)
    ours = report.row(f"{count} at once, pool on", "ms", [one * 1e3 for one in shared])
    report.row(f"{count} at once, pool off", "ms", [one * 1e3 for one in off])
    theirs = report.row(f"{count} at once, plain client", "ms", [one * 1e3 for one in separate])
    report.claim(f"{count} at once: agent processes", processes, at_most=3)
    report.claim(f"{count} at once: p95, pool / plain client", ours.p95 / theirs.p95, at_most=1 / 8)
    report.headline(
        f"{count} new gemini sessions at once, 95 % answered",
        "ms",
        {"pool on": ours.p95, "pool off": sorted(off)[int(len(off) * 0.95)] * 1e3, "plain client": theirs.p95},
        theirs.p95 / ours.p95,
        against="plain client",
    )
    report.row(f"{few} sessions with tools, one shared process", "MB PSS", [one / MIB])
    report.row(f"{few} sessions with tools, {few} processes", "MB PSS", [separate_memory / MIB])
    if not ground.quick:
        report.claim(f"{few} sessions: memory, shared / separate", one / separate_memory, at_most=1 / 8)


async def visit(deps: House, ground: Ground, number: int, leases: list[Lease]) -> float:
    began = perf_counter()
    lease = await deps.pool.lease(ground.key, tools=TOOLS, owner=f"owner-{number}", deadline=300)
    leases.append(lease)
    deps.publish(lease, f"session-{number}")
    said_at, answer = await first_text(lease, f"hello {number}")
    assert answer == f"echo: hello {number}", answer
    return said_at - began


async def pooled(ground: Ground, count: int) -> tuple[list[float], int]:
    """Seconds of each, and how many processes were started for all of them."""
    leases: list[Lease] = []
    floor = count // AHEAD
    async with open_house(ground, PoolSettings(warm=(WarmKey(ground.key, TOOLS, floor),))) as deps:
        await deps.settled(lambda: deps.parked() >= floor)
        waited = await asyncio.gather(*(visit(deps, ground, number, leases) for number in range(count)))
        for lease in leases:
            lease.release()
        return waited, deps.watched.processes


async def switched_off(ground: Ground, count: int) -> list[float]:
    leases: list[Lease] = []
    async with open_house(ground, PoolSettings(enabled=False, limits=GENEROUS)) as deps:
        waited = await asyncio.gather(*(visit(deps, ground, number, leases) for number in range(count)))
        for lease in leases:
            lease.release()
        return waited


async def apart(ground: Ground, count: int, few: int) -> tuple[list[float], int]:
    """Seconds of each with a process of its own, and the memory of some of them."""
    plans = [ground.launch(ground.primed_home()) for _ in range(count)]
    sessions: list[PlainSession] = []
    async with open_house(ground, PoolSettings()) as deps:

        async def one(number: int) -> float:
            began = perf_counter()
            session = await PlainSession.open(plans[number], ground.work, deps.bridge, f"plain-{number}")
            sessions.append(session)
            said_at, answer = await session.first_text(f"hello {number}")
            assert answer == f"echo: hello {number}", answer
            return said_at - began

        try:
            waited = await asyncio.gather(*(one(number) for number in range(count)))
            ground.crowd_apart = tuple(waited)
            while len(sessions) > few:
                await sessions.pop().end()
            return waited, tree_pss([session.process.pid for session in sessions])
        finally:
            for session in sessions:
                await session.end()


async def together(ground: Ground, few: int) -> int:
    """Bytes of the one process that serves them all, with the seats that the pool keeps parked on it."""
    leases: list[Lease] = []
    async with open_house(ground, PoolSettings(warm=(WarmKey(ground.key, TOOLS, 2),))) as deps:
        await asyncio.gather(*(visit(deps, ground, number, leases) for number in range(few)))
        await deps.settled(lambda: deps.parked() >= 2)
        assert len(deps.pids()) == 1, deps.pool.snapshot()
        memory = deps.pss()
        for lease in leases:
            lease.release()
        return memory
