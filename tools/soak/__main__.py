"""`python -m tools.soak [--seconds N] [--seed N]`: 0 when an evening of 200 sessions leaves nothing behind.

One gateway process over HTTP, agents of several kinds that are replaced for their age, their leaks and by an operator.
Told are turns and failures, recycles by cause, memory over time, the 99th percentile window by window. Judged are the
same things as after faults: nothing lost, doubled, out of order or leaked; and that memory and latency are flat.
"""

import asyncio
import sys
import tempfile
from pathlib import Path

from tests.support.tally import begin, words
from tools.agents.suite import fake_llm
from tools.soak.crew import muster
from tools.soak.evening import COMPLETED, RECYCLES, SESSIONS, evening_in

TOLD = (COMPLETED, RECYCLES, "acknowledged questions", "acknowledged answers", "stored rows and files")


def main() -> int:
    parser = words("tools.soak", __doc__)
    parser.add_argument("--seconds", type=float, default=1800.0)
    given = parser.parse_args()
    tally = begin("soak", given.seed, f"{given.seconds:g} s, {SESSIONS} sessions")
    folder, apart = tempfile.TemporaryDirectory(prefix="soak-"), tempfile.TemporaryDirectory(prefix="llm-")
    with folder as place, apart as beside, fake_llm(Path(beside)) as llm:
        crew, absent = muster(Path(place), llm)
        tally.left_out.update(absent)
        for hand in crew:
            print(f"  {hand.share:>3} parts of {hand.model}")
        asyncio.run(evening_in(Path(place), tally, crew).pass_by(given.seconds))
    return tally.close(*TOLD)


if __name__ == "__main__":
    sys.exit(main())
