"""From kill -9 of a gateway to the end of its last process, and the memory of the reaper that sees to it.

Three agents: one with a grandchild that ignores SIGTERM (two seconds, then
SIGKILL), one with a double-forked daemon, one with a bare tool server in a group of its own.
The first figure leaves out the stubborn one.
"""

import tempfile
import time
from pathlib import Path

from bench.measure import Report
from ostler.process.tree import measure
from tests.support.gateways import stand_in
from tests.support.processes import ESCAPES, alive

STUBBORN = 2 * list(ESCAPES).index("fork") + 1


def run(quick: bool) -> Report:  # noqa: ARG001 (one end is all there is to see)
    """One sudden end."""
    report = Report("from kill -9 of a gateway to the end of its last process")
    with tempfile.TemporaryDirectory() as folder, stand_in(Path(folder) / "run") as gateway:
        private = sum(
            int(line.split()[1])
            for line in Path(f"/proc/{gateway.reaper.pid}/smaps_rollup").read_text().splitlines()
            if line.startswith("Private_")
        )
        report.row("reaper, USS", "MiB", [private / 1024])
        report.row("reaper, PSS", "MiB", [measure([gateway.reaper.pid]).pss / 2**20])
        polite = [one for place, one in enumerate(gateway.agents) if place != STUBBORN]
        gateway.kill()
        began = time.perf_counter()
        for who, those in (("all that heed SIGTERM", polite), ("all", [*gateway.agents, gateway.reaper])):
            while any(map(alive, those)):
                time.sleep(0.005)
            gone = time.perf_counter() - began
            report.row(f"{who} gone", "ms", [gone * 1000])
    report.claim("seconds until the last one is gone", gone, at_most=5)
    return report
