"""`python -m tools.fuzz [--seconds S] [--frames N] [--target NAME] [--seed N]`: fuzz every target, or one.

The seconds are shared evenly. With frames instead, each target walks so many, however long that takes. Without a seed
it is another walk every time; the seed is told, so that whatever is found can be found again.
"""

import argparse
import logging
import random
import sys

from tools.fuzz.campaign import Campaign, Finding
from tools.fuzz.target import load

SECONDS = 600.0
ENDLESS = 1 << 60


def main() -> int:
    """0 when nothing was found."""
    targets = load()
    parser = argparse.ArgumentParser(prog="python -m tools.fuzz", description=__doc__)
    parser.add_argument("--seconds", type=float, help=f"for all targets together (default: {SECONDS:g})")
    parser.add_argument("--frames", type=int, help="frames per target")
    parser.add_argument("--target", choices=[target.name for target in targets])
    parser.add_argument("--seed", type=int, default=random.randrange(1 << 32))
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)  # what a whole gateway thinks of such requests fills the screen
    chosen = [target for target in targets if options.target in (None, target.name)]
    seconds = options.seconds or (SECONDS if options.frames is None else None)
    share = None if seconds is None else seconds / len(chosen)
    print(f"seed {options.seed}", flush=True)
    found = walked = 0
    for target in chosen:
        try:
            outcome = Campaign(target, options.seed).run(frames=options.frames or ENDLESS, seconds=share)
        except Finding as finding:
            found += 1
            print(f"FOUND {finding}", flush=True)
            continue
        walked += outcome.frames
        print(outcome, flush=True)
    print(f"{walked:,} frames, {len(chosen)} targets, {found} findings")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
