"""How we measure: side by side in one run, interleaved, repeated, and reported with the spread.

Rules:
- Absolute times belong to one machine on one day. What is compared is measured in the same run, A B A B, so that a
  busy minute falls on all of them; a ratio is the median of the ratios of the rounds.
- CPU time is preferred over wall time wherever work is measured and not waiting.
- A claim is a figure with its bound. A missed claim fails the run: a number that nobody checks is decoration.
"""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median, quantiles

from bench.headlines import Headline

Sample = Callable[[], float]


@dataclass(frozen=True)
class Row:
    """One figure: its samples, in one unit."""

    name: str
    unit: str
    samples: tuple[float, ...]

    @property
    def median(self) -> float:
        return median(self.samples)

    @property
    def spread(self) -> float:
        """Half the distance between the quartiles, as a share of the median."""
        if len(self.samples) < 2 or not self.median:
            return 0.0
        low, _, high = quantiles(self.samples, n=4)
        return (high - low) / 2 / abs(self.median)

    @property
    def p95(self) -> float:
        """The sample that 95 % do not exceed: for delays the tail is the figure."""
        ordered = sorted(self.samples)
        return ordered[min(len(ordered) - 1, int(len(ordered) * 0.95))]


@dataclass(frozen=True)
class Claim:
    """A promise about a figure."""

    name: str
    value: float
    at_most: float | None = None
    at_least: float | None = None

    @property
    def holds(self) -> bool:
        return (self.at_most is None or self.value <= self.at_most) and (
            self.at_least is None or self.value >= self.at_least
        )

    def __str__(self) -> str:
        bounds = [
            f"{sign} {bound:g}" for sign, bound in (("<=", self.at_most), (">=", self.at_least)) if bound is not None
        ]
        return f"{'holds ' if self.holds else 'MISSED'}  {self.name}: {self.value:.3g} ({', '.join(bounds)})"


@dataclass
class Report:
    """What one bench found."""

    title: str
    rows: list[Row] = field(default_factory=list)
    claims: list[Claim] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    headlines: list[Headline] = field(default_factory=list)
    whole: bool = True
    """False for a bench that broke off."""

    def row(self, name: str, unit: str, samples: Sequence[float]) -> Row:
        """Add a figure."""
        added = Row(name, unit, tuple(samples))
        self.rows.append(added)
        return added

    def claim(self, name: str, value: float, *, at_most: float | None = None, at_least: float | None = None) -> None:
        """Add a promise and what was measured for it."""
        self.claims.append(Claim(name, value, at_most, at_least))

    def headline(
        self, name: str, unit: str, bars: Mapping[str, float], ratio: float, spread: float | None = None,
        *, against: str, more: bool = False,
    ) -> None:  # fmt: skip
        """Add a comparison for strangers: our bar first, and how many times better it is than what counts. Without a
        spread it says that it is from one round."""
        self.headlines.append(Headline(name, unit, tuple(bars.items()), ratio, spread, against, more))

    def compare(
        self, name: str, unit: str, found: Mapping[str, Sequence[float]], *, against: str, more: bool = False
    ) -> None:
        """Rows and a headline from samples, ours first; `more` where the larger figure is the better one.

        Samples of the same number were taken side by side, so their ratio is that of the rounds."""
        for label, samples in found.items():
            self.row(f"{name}: {label}", unit, samples)
        ours, theirs = next(iter(found.values())), found[against]
        if len(ours) == len(theirs):
            pairs = [(a / b if more else b / a) for a, b in zip(ours, theirs, strict=True)]
        else:
            pairs = [median(ours) / median(theirs) if more else median(theirs) / median(ours)]
        rounds = Row(name, unit, tuple(pairs if len(pairs) > 1 else ours))
        spread = rounds.spread if len(rounds.samples) > 1 else None
        bars = {label: median(samples) for label, samples in found.items()}
        self.headline(name, unit, bars, median(pairs), spread, against=against, more=more)


def interleave(cases: Mapping[str, Sample], *, rounds: int, warmup: int = 1) -> dict[str, list[float]]:
    """Run every case once per round; every other round backwards, so that none always follows the same neighbour."""
    samples: dict[str, list[float]] = {name: [] for name in cases}
    order = list(cases)
    for turn in range(-warmup, rounds):
        for name in order if turn % 2 else reversed(order):
            figure = cases[name]()
            if turn >= 0:
                samples[name].append(figure)
    return samples


def ratio(slow: Sequence[float], fast: Sequence[float]) -> float:
    """How many times `fast` goes into `slow`, round by round."""
    return median(a / b for a, b in zip(slow, fast, strict=True))


def cpu_seconds(work: Callable[[], object]) -> float:
    """The processor time of one go."""
    started = time.process_time()
    work()
    return time.process_time() - started
