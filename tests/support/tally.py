"""What a long run counts, what broke in it, and how it says so at its end.

Rules:
- The first line and the last one name the seed: whoever has either can play the run again.
- The last line is for a reader in a hurry: breaks, seconds, seed, and the counts that the run is about, those that are
  nought too. It is printed after everything else, whatever else there is.
- What a run is about and never did is a break: nothing is proven by what did not happen. What cannot be done on this
  machine is left out with its reason, and said.
"""

import argparse
import secrets
import time
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

WIDTH = 48
LINES = 100
"""How many different breaks are told; of the rest how many there are."""


@dataclass
class Tally:
    """Of one run. Made by `begin`."""

    name: str
    seed: int
    began: float
    counts: Counter[str] = field(default_factory=Counter)
    broken: list[str] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)

    def expect(self, holds: bool, what: str) -> None:
        """Remember what is not so."""
        if not holds:
            self.broken.append(what)

    def expect_some(self, names: Iterable[str]) -> None:
        """Each of these was counted at least once."""
        for name in names:
            self.expect(self.counts[name] > 0, f"it never happened: {name}")

    def close(self, *told: str) -> int:
        """Say how it was, these counts in the last line. The exit code."""
        for name, count in sorted(self.counts.items()):
            print(f"  {name:<{WIDTH}} {count:>8}")
        for what, reason in self.left_out.items():
            print(f"LEFT OUT  {what}: {reason}")
        different = Counter(self.broken)
        for line, times in [*different.items()][:LINES]:
            print(f"BROKEN  {line}" + (f"  (x {times})" if times > 1 else ""))
        if len(different) > LINES:
            print(f"BROKEN  and {len(different) - LINES} others")
        print(self.last_line(told, time.monotonic() - self.began), flush=True)
        return 1 if self.broken else 0

    def last_line(self, told: Iterable[str], seconds: float) -> str:
        """The run in a line."""
        counts = "; ".join(f"{self.counts[name]:,} {name}" for name in told)
        without = f"; without {', '.join(self.left_out)}" if self.left_out else ""
        return f"{self.name}: {len(self.broken)} breaks in {seconds:.0f} s with seed {self.seed}: {counts}{without}"


def words(program: str, about: str | None) -> argparse.ArgumentParser:
    """What every run can be told."""
    parser = argparse.ArgumentParser(prog=f"python -m {program}", description=about)
    parser.add_argument("--seed", type=int, default=None, help="a random one by default; it is printed")
    return parser


def begin(name: str, seed: int | None, about: str) -> Tally:
    """The first line."""
    drawn = secrets.randbelow(1 << 32) if seed is None else seed
    print(f"{name}: {about}, seed {drawn}", flush=True)
    return Tally(name, drawn, time.monotonic())
