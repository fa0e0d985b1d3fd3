"""`python -m tests.faults [--seconds N] [--seed N]`: what the world does to a gateway under load, and what is left.

1. A gateway that may open 256 files, and more clients than that.
2. Lives of gateways on one data folder: load, a base, upsets (each kind once, then drawn), rest and comparison with the
   base, load again, kill -9 at a random moment, now and then in the middle of a SIGSTOP. The last one ends well.

Afterwards nothing that was acknowledged is lost, nothing is there twice or out of order, no word of a conversation is
found with another, no process is left, and files and memory are where they were. 0 when all of that holds.
"""

import argparse
import asyncio
import random
import secrets
import sys
import tempfile
from pathlib import Path

from tests.faults.ground import enter, small_disk
from tests.faults.run import Run
from tests.faults.upsets import UPSETS


async def play(seconds: float, seed: int, *, inside: bool) -> Run:
    """All of it, in a folder that is a disk of its own where one can be mounted."""
    with tempfile.TemporaryDirectory(prefix="faults-") as place, small_disk(Path(place)) as mounted:
        run = Run(Path(place), random.Random(seed), inside=inside, full_disk=mounted)
        await run.starve()
        await run.live(seconds)
        return run


def report(run: Run) -> int:
    """The summary."""
    scene = run.scene
    for name, count in sorted(scene.counts.items()):
        print(f"  {name:<44} {count:>8}")
    for name in UPSETS:
        if name in scene.left_out:
            print(f"LEFT OUT  {name}: {scene.left_out[name]}")
        else:
            scene.expect(scene.counts[f"upset: {name}"] > 0, f"there was no time for: {name}")
    verdict = run.verdict
    print(
        f"{verdict['lost']} acknowledged lost, {verdict['doubled']} doubled, {verdict['disordered']} out of order, "
        f"{verdict['leaked']} leaked, {verdict['damaged']} damaged, {verdict['orphans']} orphans"
    )
    for line in scene.broken[:60]:
        print(f"BROKEN  {line}")
    print(f"{len(scene.broken)} breaks")
    return 1 if scene.broken else 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description=__doc__)
    parser.add_argument(
        "--seconds", type=float, default=600.0, help="of life with upsets, about; the rest comes on top"
    )
    parser.add_argument("--seed", type=int, default=None, help="a random one by default; it is printed")
    given = parser.parse_args()
    inside = enter()
    seed = secrets.randbelow(1 << 32) if given.seed is None else given.seed
    print(f"faults: {given.seconds:g} s, seed {seed}", flush=True)
    return report(asyncio.run(play(given.seconds, seed, inside=inside)))


if __name__ == "__main__":
    sys.exit(main())
