"""`python -m tools.faults [--seconds N] [--seed N]`: what the world does to a gateway under load, and what is left.

1. A gateway that may open 256 files, and more clients than that.
2. Lives of gateways on one data folder: load, a base, upsets (each kind once, then drawn), rest and comparison with the
   base, load again, kill -9 at a random moment, now and then in the middle of a SIGSTOP. The last one ends well.

Afterwards nothing that was acknowledged is lost, nothing is there twice or out of order, no word of a conversation is
found with another, no process is left, and files and memory are where they were. 0 when all of that holds.
"""

import asyncio
import sys
import tempfile
from pathlib import Path

from tests.support.small_disk import small_disk
from tests.support.tally import Tally, begin, words
from tools.faults.ground import DISK, enter
from tools.faults.run import KILLED, ORPHANS, SENT, Run
from tools.faults.upsets import HELD, TRIED, expect_all

TOLD = (
    *(SENT, "acknowledged questions", "acknowledged answers", "acknowledged tool results", KILLED, TRIED, HELD),
    *("lost", "doubled", "disordered", "leaked", "damaged", ORPHANS),
)


async def play(seconds: float, tally: Tally, *, inside: bool) -> None:
    """All of it, in a folder that is a disk of its own where one can be mounted."""
    with tempfile.TemporaryDirectory(prefix="faults-") as place, small_disk(Path(place), DISK) as mounted:
        run = Run(Path(place), tally, inside=inside, full_disk=mounted)
        await run.starve()
        await run.live(seconds)
        expect_all(run.scene)


def main() -> int:
    parser = words("tools.faults", __doc__)
    parser.add_argument(
        "--seconds", type=float, default=600.0, help="of life with upsets, about; the rest comes on top"
    )
    given = parser.parse_args()
    inside = enter()
    tally = begin("faults", given.seed, f"{given.seconds:g} s")
    asyncio.run(play(given.seconds, tally, inside=inside))
    return tally.close(*TOLD)


if __name__ == "__main__":
    sys.exit(main())
