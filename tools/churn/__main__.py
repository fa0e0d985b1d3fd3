"""`python -m tools.churn [--seconds N] [--seed N]`: 0 when nothing broke and everything is as it was before."""

import asyncio
import logging
import random
import sys
import tempfile
from pathlib import Path

from tests.support.tally import Tally, begin, words
from tools.churn.churn import churn
from tools.churn.world import Footing, World, open_world

WARM_UP = 8.0
"""Seconds of the same life before the base is taken: what is loaded and cached once is no leak."""
MEMORY_SLACK = 16 << 20
ALWAYS = ("inspections", "turns, done", "tool calls")
IN_A_MINUTE = ("turns, cancelled", "agents killed", "relays killed", "moves", "losses")
"""What a life of so long must have seen, or it proved less than it says."""
TOLD = ("turns, done", "tool calls", "inspections", "agents killed", "relays killed", "losses")


async def live(seconds: float, tally: Tally) -> None:
    """Live, rest, compare."""
    chance = random.Random(tally.seed)
    with tempfile.TemporaryDirectory(prefix="churn-") as folder:
        async with open_world(Path(folder), tally) as world:
            await churn(world, min(WARM_UP, seconds / 3), chance)
            await world.come_to_rest()
            base = await world.footing()
            await churn(world, seconds, chance)
            await world.come_to_rest()
            compare(world, base, await world.footing())
        tally.expect(not world.strays(), f"processes that were left behind: {world.strays()}")
    tally.expect_some((*ALWAYS, *(IN_A_MINUTE if seconds >= 60 else ())))


def compare(world: World, base: Footing, now: Footing) -> None:
    """Everything back to where it was."""
    tally, census = world.tally, world.pool.snapshot().core.census
    tally.counts["files open at the base"], tally.counts["files open at the end"] = base.files, now.files
    tally.counts["MB at the base"], tally.counts["MB at the end"] = base.memory >> 20, now.memory >> 20
    tally.expect(now.files <= base.files, f"{now.files} files are open, {base.files} were")
    tally.expect(now.tasks <= base.tasks, f"{now.tasks} tasks run, {base.tasks} did")
    grown = now.memory - base.memory
    tally.expect(grown <= MEMORY_SLACK, f"{grown >> 20} MB more than before")
    tally.expect(census.leased == census.waiting == census.processes == 0, f"at rest: {census}")


def main() -> int:
    parser = words("tools.churn", __doc__)
    parser.add_argument("--seconds", type=float, default=600.0)
    given = parser.parse_args()
    logging.basicConfig(level=logging.CRITICAL)
    tally = begin("churn", given.seed, f"{given.seconds:g} s")
    asyncio.run(live(given.seconds, tally))
    return tally.close(*TOLD)


if __name__ == "__main__":
    sys.exit(main())
