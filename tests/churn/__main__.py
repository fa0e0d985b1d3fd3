"""`python -m tests.churn [--seconds N] [--seed N]`: 0 when nothing broke and everything is as it was before."""

import argparse
import asyncio
import logging
import random
import secrets
import sys
import tempfile
from pathlib import Path

from tests.churn.churn import churn
from tests.churn.world import Footing, World, open_world

WARM_UP = 8.0
"""Seconds of the same life before the base is taken: what is loaded and cached once is no leak."""
MEMORY_SLACK = 16 << 20


async def live(seconds: float, seed: int) -> World:
    """Live, rest, compare."""
    chance = random.Random(seed)
    with tempfile.TemporaryDirectory(prefix="churn-") as folder:
        async with open_world(Path(folder)) as world:
            await churn(world, min(WARM_UP, seconds / 3), chance)
            await world.come_to_rest()
            base = await world.footing()
            await churn(world, seconds, chance)
            await world.come_to_rest()
            compare(world, base, await world.footing())
        world.expect(not world.strays(), f"processes that were left behind: {world.strays()}")
    return world


def compare(world: World, base: Footing, now: Footing) -> None:
    """Everything back to where it was."""
    census = world.pool.snapshot().core.census
    world.counts["files open at the base"], world.counts["files open at the end"] = base.files, now.files
    world.counts["MB at the base"], world.counts["MB at the end"] = base.memory >> 20, now.memory >> 20
    world.expect(now.files <= base.files, f"{now.files} files are open, {base.files} were")
    world.expect(now.tasks <= base.tasks, f"{now.tasks} tasks run, {base.tasks} did")
    grown = now.memory - base.memory
    world.expect(grown <= MEMORY_SLACK, f"{grown >> 20} MB more than before")
    world.expect(census.leased == census.waiting == census.processes == 0, f"at rest: {census}")


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.churn", description=__doc__)
    parser.add_argument("--seconds", type=float, default=600.0)
    parser.add_argument("--seed", type=int, default=None, help="a random one by default; it is printed")
    given = parser.parse_args()
    seed = secrets.randbelow(1 << 32) if given.seed is None else given.seed
    logging.basicConfig(level=logging.CRITICAL)
    print(f"churn: {given.seconds:g} s, seed {seed}", flush=True)
    world = asyncio.run(live(given.seconds, seed))
    for name, count in sorted(world.counts.items()):
        print(f"  {name:<40} {count:>8}")
    for line, times in {line: world.broken.count(line) for line in world.broken[:200]}.items():
        print(f"BROKEN  {line}  (x {times})")
    print(f"{len(world.broken)} breaks")
    return 1 if world.broken else 0


if __name__ == "__main__":
    sys.exit(main())
