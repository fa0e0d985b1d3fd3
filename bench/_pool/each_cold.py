"""`python -m bench._pool.each_cold PLAN`: the first word of a session whose process nobody had started, three ways.

Rules:
- "Pool off" starts one process and nothing else; "pool" starts the reserve's when the first answer has begun; "eager"
  is the pool with a `give_way` of nothing: the reserve's process starts as soon as the seat is granted.
- The generic agent is our own demo agent behind a start and a first prompt that keep a core busy, as an interpreter
  does that loads its code; its HOME, model and network cost nothing, so what is left is the order of the starts.
- Ways take turns, round by round, each in a directory of its own. A measure waits until the reserve of the one before
  is up and everything it started is gone.
"""

import asyncio
import sys
import time
from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace

from bench._pool.each_agent import used_once
from bench._pool.first_prompt import CALM, GENEROUS, cold, through
from bench._pool.ground import Ground, House, open_house
from bench._pool.stage import stage
from bench.measure import Report, ratio
from ostler.pool import PoolSettings, ProviderSettings
from ostler.pool.errors import PoolError

BURN = 0.5
"""Seconds of one core, for the start and again for the first prompt."""
BUSY = f"""
import subprocess, sys, time
def burn():
    end = time.thread_time() + {BURN}
    while time.thread_time() < end:
        pass
burn()
agent = subprocess.Popen([sys.executable, "-m", "ostler.demo", *sys.argv[1:]], stdin=subprocess.PIPE)
fresh = True
for line in sys.stdin.buffer:
    if fresh and b'"session/prompt"' in line:
        fresh = False
        burn()
    agent.stdin.write(line)
    agent.stdin.flush()
agent.stdin.close()
agent.wait()
"""
PATIENCE = 30.0
"""An agent that has used up its seconds gets no more rounds, but three it gets."""
ROUNDS = 5
EAGER = 1e-6


@dataclass
class Busy(Ground):
    """A generic agent that keeps a core busy before its first word."""

    def settings(self, home: str = "home") -> ProviderSettings:
        return replace(super().settings(home), command=(sys.executable, "-c", BUSY))


async def run(ground: Ground, report: Report) -> None:
    """One agent's comparison."""
    async with AsyncExitStack() as houses:
        plans = {
            "pool off": PoolSettings(enabled=False, limits=GENEROUS),
            "pool": PoolSettings(limits=GENEROUS),
            "eager": PoolSettings(limits=replace(GENEROUS, give_way=EAGER)),
        }
        ways: dict[str, House] = {}
        for way, settings in plans.items():
            ways[way] = await houses.enter_async_context(open_house(ground, settings))
            if len(ways) == 1:
                # Before the others start theirs: two first starts on one HOME fight for it, and some agents lose.
                await used_once(ground, ways[way])
        found = await rounds(ground, ways)
    for way, samples in found.items():
        report.row(f"{ground.provider}, {way}", "ms", samples)
    report.claim(f"{ground.provider}: cold with the pool / off", ratio(found["pool"], found["pool off"]), at_most=1.35)
    report.notes.append(f"{ground.provider}: eager / off {ratio(found['eager'], found['pool off']):.2f}")


async def rounds(ground: Ground, ways: Mapping[str, House]) -> dict[str, list[float]]:
    """Milliseconds of each way."""
    found: dict[str, list[float]] = {way: [] for way in ways}
    began = time.monotonic()
    for number in range(2 if ground.quick else ROUNDS):
        if number > 2 and time.monotonic() - began > PATIENCE:
            break
        for way, deps in ways.items():
            name = f"{way}-{number}".replace(" ", "-")
            if way == "pool off":
                await asyncio.sleep(CALM)
                found[way].append((await through(deps, ground.key, name))[0] * 1e3)
            else:
                found[way].append(await cold(ground, deps, name) * 1e3)
    return found


async def every_one(grounds: list[Ground], report: Report) -> None:
    """One after the other; one that fails is named, and the run fails at its end."""
    measured = 0
    for ground in grounds:
        began = time.monotonic()
        try:
            await run(ground, report)
            measured += 1
        except (PoolError, AssertionError, TimeoutError) as failed:
            report.notes.append(f"{ground.provider} is not measured: {type(failed).__name__}: {failed}")
        print(f"  {ground.provider}: {time.monotonic() - began:.1f} s", file=sys.stderr, flush=True)
    report.claim("agents of those that are installed", measured, at_least=len(grounds))


def main() -> None:
    with stage("first word of a session on a cold key: with the pool, without, and with an eager reserve") as here:
        generic = here.ground_of("acp")
        busy = Busy(generic.folder, generic.install, generic.llm, generic.quick, None, "acp", "demo")
        asyncio.run(every_one([busy, *(here.ground_of(name) for name in here.plan["installs"])], here.report))


if __name__ == "__main__":
    main()
