"""`python -m bench._pool.each_agent PLAN`: the first word of a new session, agent after agent.

Rules:
- "parked" claims a seat that was opened ahead; "warm" finds the process up and opens its session, which it gets by
  asking for tools that no parked seat has; "cold" starts a process. "plain client" starts one for each session, as a
  gateway without a pool does; "pool off" is the same through our calls; "acpx" is the command a person would type.
- Ways take turns, round by round. Each measure waits until the one before is over and calm.
- Where an agent holds one session for each process or directory there is no warm way. codex app-server speaks no ACP:
  it has no plain client and no acpx, and is compared with the pool switched off.
- What an agent writes into its answers and is no part of them is not its first word. acpx prints it all the same, so it
  is not compared there.
- An agent that fails is named in a note and the others go on, but the run fails at its end: a comparison that is not
  there must not look like one that holds.
"""

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack

from bench._pool.first_prompt import CALM, GENEROUS, cold, parked, plain, rival, through
from bench._pool.ground import TOOLS, WHOAMI, Ground, House, first_text, open_house
from bench._pool.stage import stage
from bench.measure import Report
from ostler.pool import PoolSettings, ToolSet, WarmKey
from ostler.pool.errors import PoolError
from ostler.pool.provider import CodecName, Sharing
from ostler.pool.providers import load

Way = Callable[[str], Awaitable[float]]
PATIENCE = 25.0
"""Seconds after which an agent that had two rounds gets no more."""
LONGEST = 240.0


async def run(ground: Ground, report: Report) -> None:
    """One agent's comparison."""
    rounds = 1 if ground.quick else 3
    warm = (WarmKey(ground.key, TOOLS, 1),)
    async with AsyncExitStack() as houses:
        off = await houses.enter_async_context(open_house(ground, PoolSettings(enabled=False, limits=GENEROUS)))
        # Before the other one starts its own: two first starts on one HOME fight for it, and some agents lose.
        await used_once(ground, off)
        on = await houses.enter_async_context(open_house(ground, PoolSettings(limits=GENEROUS, warm=warm)))
        ways = ways_of(ground, on, off)
        found: dict[str, list[float]] = {name: [] for name in ways}
        began = time.monotonic()
        for number in range(rounds):
            if number > 1 and time.monotonic() - began > PATIENCE:
                break
            for name, way in ways.items():
                found[name].append(await way(f"{name}-{number}".replace(" ", "-")) * 1e3)
    rival_name = "plain client" if "plain client" in found else "pool off"
    report.compare(f"First text of a new session: {ground.provider}", "ms", found, against=rival_name)


def ways_of(ground: Ground, on: House, off: House) -> Mapping[str, Way]:
    """Ours first; only what this agent can do."""
    provider = load()[ground.provider]
    acp = provider.codec is CodecName.ACP

    async def switched_off(name: str) -> float:
        await asyncio.sleep(CALM)
        return (await through(off, ground.key, name))[0]

    ways: dict[str, Way] = {"parked": lambda name: parked(ground, on, name, 1)}
    if provider.sharing is Sharing.SESSIONS:
        ways["warm"] = lambda name: warm(ground, on, name)
    ways["cold"] = lambda name: unwarmed(ground, on, name)
    ways["pool off"] = switched_off
    if acp:
        ways["plain client"] = lambda name: plain(ground, on, name)
    acpx = ground.acpx
    if acp and acpx is not None and provider.strips is None:
        ways["acpx"] = lambda name: rival(ground, acpx, name)
    return ways


async def used_once(ground: Ground, off: House) -> None:
    """The first start ever on a HOME is slower, and nobody's figure should contain it."""
    async with await off.pool.lease(ground.key) as lease:
        await first_text(lease, "hello")


async def warm(ground: Ground, deps: House, name: str) -> float:
    """A session with tools of its own kind: the process is there, the seat is not."""
    await deps.settled(lambda: deps.parked() >= 1)
    await asyncio.sleep(CALM)
    other = ToolSet(({**WHOAMI, "description": f"says whose call this is, {name}"},))
    seconds, warmth = await through(deps, ground.key, name, other)
    assert warmth == "warm", warmth
    return seconds


async def unwarmed(ground: Ground, deps: House, name: str) -> float:
    """Once the seat that was used before has its successor: where that takes a process, it would start beside ours."""
    await deps.settled(lambda: deps.parked() >= 1)
    return await cold(ground, deps, name)


async def every_one(grounds: list[Ground], report: Report) -> None:
    """One after the other."""
    measured = 0
    for ground in grounds:
        began = time.monotonic()
        try:
            async with asyncio.timeout(LONGEST):
                await run(ground, report)
            measured += 1
        except (PoolError, AssertionError, RuntimeError, TimeoutError, OSError) as failed:
            report.notes.append(f"{ground.provider} is not measured: {type(failed).__name__}: {failed}")
        print(f"  {ground.provider}: {time.monotonic() - began:.1f} s", file=sys.stderr, flush=True)
    report.claim("agents of those that are installed", measured, at_least=len(grounds))


def main() -> None:
    with stage("until a new session says its first word, with each agent") as here:
        grounds = [here.ground_of(name) for name in ("demo", *here.plan["installs"])]
        asyncio.run(every_one(grounds, here.report))


if __name__ == "__main__":
    main()
