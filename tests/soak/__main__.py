"""`python -m tests.soak [--seconds N] [--seed N]`: 0 when an evening of 200 sessions leaves nothing behind.

One gateway process over HTTP, agents of several kinds that are replaced for their age, their leaks and by an operator.
Told are turns and failures, recycles by cause, memory over time, the 99th percentile window by window. Judged are the
same things as after faults: nothing lost, doubled, out of order or leaked; and that memory and latency are flat.
"""

import argparse
import asyncio
import secrets
import sys
import tempfile
from pathlib import Path

from tests.agents.suite import fake_llm
from tests.soak.crew import muster
from tests.soak.evening import SESSIONS, Evening, evening_in


def report(evening: Evening) -> int:
    """The summary."""
    scene = evening.scene
    for cause, many in sorted(evening.recycles.items()):
        print(f"  recycled, {cause:<38} {many:>8}")
    for name, count in sorted(scene.counts.items()):
        print(f"  {name:<48} {count:>8}")
    for line in scene.broken[:60]:
        print(f"BROKEN  {line}")
    print(f"{len(scene.broken)} breaks")
    return 1 if scene.broken else 0


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.soak", description=__doc__)
    parser.add_argument("--seconds", type=float, default=1800.0)
    parser.add_argument("--seed", type=int, default=None, help="a random one by default; it is printed")
    given = parser.parse_args()
    seed = secrets.randbelow(1 << 32) if given.seed is None else given.seed
    print(f"soak: {given.seconds:g} s, {SESSIONS} sessions, seed {seed}", flush=True)
    folder, apart = tempfile.TemporaryDirectory(prefix="soak-"), tempfile.TemporaryDirectory(prefix="llm-")
    with folder as place, apart as beside, fake_llm(Path(beside)) as llm:
        crew, absent = muster(Path(place), llm)
        for hand in crew:
            print(f"  {hand.share:>3} parts of {hand.model}")
        for provider, reason in absent.items():
            print(f"  without {provider}: {reason}")
        evening = evening_in(Path(place), seed, crew)
        asyncio.run(evening.pass_by(given.seconds))
    return report(evening)


if __name__ == "__main__":
    sys.exit(main())
