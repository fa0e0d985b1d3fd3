"""Start a gateway, kill it at a random moment, start the next, count what the last one left: again and again.

`python -m tests.process.spawning.kill_cycles 200 [SEED]` prints the tally; the suite runs a few cycles of it.
"""

import asyncio
import random
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path

from ostler.process import ProcessSupervisor
from ostler.process.ledger import spawns_folder
from ostler.process.reaper.proc import ProcessIdentity, read_table
from tests.support.gateways import launch
from tests.support.witness import open_files


@dataclass
class Tally:
    cycles: int = 0
    spawned: int = 0
    survivors: int = 0
    descriptors_leaked: int = 0


def run_cycles(cycles: int, *, seed: int, runtime_dir: Path) -> Tally:
    # Moments from before the first agent to dozens of agents later: counted from the start of the gateway, and in every
    # other cycle from its first agent, which a busy machine starts late.
    rng = random.Random(seed)
    tally = Tally()
    before = len(open_files())
    asyncio.run(_settle(runtime_dir))
    for number in range(cycles):
        _one(rng.uniform(0.05, 0.9), tally, runtime_dir, after_first=number % 2 == 1)
    tally.descriptors_leaked = len(open_files()) - before
    return tally


def _one(moment: float, tally: Tally, runtime_dir: Path, *, after_first: bool) -> None:
    born_after = _now()
    gateway = launch(runtime_dir, 0)
    while after_first and not any(spawns_folder(runtime_dir).glob("*/*")):
        time.sleep(0.01)
    time.sleep(moment)
    gateway.kill()
    gateway.wait()
    assert gateway.stdout is not None
    gateway.stdout.close()
    tally.spawned += sum(1 for _ in spawns_folder(runtime_dir).glob("*/*"))
    asyncio.run(_settle(runtime_dir))
    tally.survivors += len(_left(runtime_dir, born_after))
    tally.cycles += 1


async def _settle(runtime_dir: Path) -> None:
    supervisor = await ProcessSupervisor.open(runtime_dir, "next")
    await supervisor.aclose()


def _now() -> int:
    return max((s.start for s in read_table().values()), default=0)


def _left(runtime_dir: Path, born_after: int) -> list[ProcessIdentity]:
    """Judged without markers or ledger: every scripted child works in the runtime dir, come what may."""
    found = []
    for stat in read_table().values():
        try:
            there = Path(f"/proc/{stat.pid}/cwd").readlink()
        except OSError:
            continue
        if there == runtime_dir and stat.start >= born_after and not stat.dead:
            found.append(stat.identity)
    return found


def main(arguments: list[str]) -> int:
    cycles, seed = int(arguments[0]), int(arguments[1]) if arguments[1:] else 0
    with tempfile.TemporaryDirectory() as folder:
        began = time.monotonic()
        tally = run_cycles(cycles, seed=seed, runtime_dir=Path(folder) / "run")
    print(f"{tally} in {time.monotonic() - began:.0f} s")
    # Kills that came before the first agent would show nothing.
    return 1 if tally.survivors or tally.descriptors_leaked or not tally.spawned else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
