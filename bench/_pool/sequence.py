"""One session after the other on gemini, which cannot end a session: does the hundredth open as fast as the first?

Opens are timed where they happen, in the agent, for parked seats and for those that somebody waits for alike. Memory is
that of all agent processes and their relays, a retired one and its successor together, from the moment that it is
spawned, looked at while the sessions run.
"""

import asyncio
from statistics import mean

from bench._pool.ground import MIB, TOOLS, Ground, House, agents, first_text, open_house, tree_pss
from bench.measure import Report
from ostler.pool import PoolSettings, WarmKey
from ostler.pool.errors import PoolError

LOOK_EVERY = 0.1


async def run(ground: Ground, report: Report) -> None:
    """Adds the figures."""
    count, edge = (60, 15) if ground.quick else (300, 50)
    async with open_house(ground, PoolSettings(warm=(WarmKey(ground.key, TOOLS, 1),))) as deps:
        await deps.settled(lambda: len(deps.pids()) == 1)
        fresh = await asyncio.to_thread(deps.pss)
        looks: list[int] = []
        watching = asyncio.create_task(watch(looks))
        failed = sum([not await served(deps, ground, number) for number in range(count)])
        watching.cancel()
        starts = deps.watched.processes
        opens = deps.watched.seconds
    first, last = opens[:edge], opens[-edge:]
    report.row(f"session open, first {edge} of {count}", "ms", [one * 1e3 for one in first])
    report.row(f"session open, last {edge} of {count}", "ms", [one * 1e3 for one in last])
    report.row("memory of one fresh process", "MB PSS", [fresh / MIB])
    report.row("memory during the sequence", "MB PSS", [look / MIB for look in looks])
    report.claim(f"{count} in sequence: opens, last {edge} / first {edge}", mean(last) / mean(first), at_most=1.5)
    report.claim(f"{count} in sequence: peak memory / one fresh process", max(looks) / fresh, at_most=2.5)
    report.claim(f"{count} in sequence: failed turns", failed, at_most=0)
    report.notes.append(f"{count} in sequence: {starts} processes, {len(opens)} sessions opened in them")


async def served(deps: House, ground: Ground, number: int) -> bool:
    """One session: claimed, one turn, released."""
    try:
        async with await deps.pool.lease(ground.key, tools=TOOLS) as lease:
            deps.publish(lease, f"session-{number}")
            _, answer = await first_text(lease, f"hello {number}")
    except (PoolError, AssertionError):
        return False
    return answer == f"echo: hello {number}"


async def watch(looks: list[int]) -> None:
    while True:
        looks.append(await asyncio.to_thread(lambda: tree_pss(agents())))
        await asyncio.sleep(LOOK_EVERY)
