"""`python -m tests.fuzz [--frames N] [--seconds S] [--target NAME] [--seed N]`: fuzz every target, or one."""

import argparse
import sys

from tests.fuzz.campaign import Campaign, Finding
from tests.fuzz.target import load

TOTAL = 1_000_000


def main() -> int:
    """0 when nothing was found."""
    targets = load()
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz")
    parser.add_argument("--frames", type=int, help=f"frames per target (default: {TOTAL:,} over all targets)")
    parser.add_argument("--seconds", type=float, help="end each target after so many seconds")
    parser.add_argument("--target", choices=[target.name for target in targets])
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    chosen = [target for target in targets if options.target in (None, target.name)]
    frames = options.frames or -(-TOTAL // len(chosen))
    found = walked = 0
    for target in chosen:
        try:
            outcome = Campaign(target, options.seed).run(frames=frames, seconds=options.seconds)
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
