"""From kill -9 of a gateway to the end of its last process, and the memory of the reaper that sees to it.

`python -m bench.sudden_end`. Three agents: one with a grandchild that ignores SIGTERM (two seconds, then
SIGKILL), one with a double-forked daemon, one with a bare tool server in a group of its own.
The first figure leaves out the stubborn one.
"""

import tempfile
import time
from pathlib import Path

from ostler.pool.process.tree import measure
from tests.support.gateways import stand_in
from tests.support.processes import ESCAPES, alive

STUBBORN = 2 * list(ESCAPES).index("fork") + 1


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, stand_in(Path(folder) / "run") as gateway:
        private = sum(
            int(line.split()[1])
            for line in Path(f"/proc/{gateway.reaper.pid}/smaps_rollup").read_text().splitlines()
            if line.startswith("Private_")
        )
        memory = measure([gateway.reaper.pid])
        print(f"reaper: USS {private} KiB, PSS {memory.pss >> 10} KiB")
        polite = [one for place, one in enumerate(gateway.agents) if place != STUBBORN]
        gateway.kill()
        began = time.perf_counter()
        for who, those in (("all that heed SIGTERM", polite), ("all", [*gateway.agents, gateway.reaper])):
            while any(map(alive, those)):
                time.sleep(0.005)
            print(f"{who} gone after {(time.perf_counter() - began) * 1000:.0f} ms")


if __name__ == "__main__":
    main()
