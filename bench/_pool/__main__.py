"""`python -m bench._pool PLAN`: the scenes one after the other; a report as JSON in a file, progress on stderr."""

import asyncio
import sys
import time
from collections.abc import Awaitable, Callable

from bench._pool import claims, crowd, death, first_prompt, memory, sequence
from bench._pool.ground import GEMINI, Ground, open_house
from bench._pool.plain import PlainSession
from bench._pool.stage import stage
from bench.measure import Report
from ostler.pool import PoolSettings


async def scenes(ground: Ground, report: Report, chosen: list[str]) -> None:
    """Every scene, or the chosen ones."""
    await prime(ground)
    plays: dict[str, Callable[[], Awaitable[None]]] = {
        "claims": lambda: claims.run(ground, report),
        "first": lambda: first_prompt.run(ground, report),
        "crowd": lambda: crowd.run(ground, report),
        "memory": lambda: memory.run(ground, report),
        "sequence": lambda: sequence.run(ground, report),
        "death": lambda: death.run(ground, report),
    }
    for name, play in plays.items():
        if not chosen or name in chosen:
            began = time.monotonic()
            await play()
            print(f"  {name}: {time.monotonic() - began:.1f} s", file=sys.stderr, flush=True)


async def prime(ground: Ground) -> None:
    """Use the HOME once."""
    async with open_house(ground, PoolSettings()) as deps:
        session = await PlainSession.open(ground.launch(), ground.work, deps.bridge, "prime")
        await session.first_text("hello")
        await session.end()


def main() -> None:
    with stage("the pool: parked, cold, off, and a plain client with one process per session") as here:
        ground = here.ground_of(GEMINI)
        asyncio.run(scenes(ground, here.report, here.plan["scenes"]))


if __name__ == "__main__":
    main()
