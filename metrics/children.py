"""The numbers behind one series each: plain attributes, no lock.

Rules: a child is written by one thread only, and read by any. What a scrape reads may be a moment old, never torn: a
reading of an attribute is one step of the interpreter. (A locked counter of prometheus-client costs seven times as
much, and a turn would pay for a dozen of them.)
"""

from bisect import bisect_left
from collections.abc import Sequence


class CounterValue:
    """Only grows."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value: float = 0

    def add(self, amount: float = 1) -> None:
        """So many more."""
        self.value += amount

    def reach(self, total: float) -> None:
        """Somebody else counts; this is how far they are."""
        self.value = max(self.value, total)


class GaugeValue:
    """Goes up and down."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value: float = 0

    def set(self, value: float) -> None:
        """It is this now."""
        self.value = float(value)

    def add(self, amount: float = 1) -> None:
        """So many more, or fewer."""
        self.value += amount


class Total:
    """How many, and how much together: a histogram without its buckets."""

    __slots__ = ("count", "sum")

    def __init__(self) -> None:
        self.count: float = 0
        self.sum: float = 0.0

    def reach(self, count: float, total: float) -> None:
        """Somebody else counts; this is how far they are."""
        self.count, self.sum = count, total


class Spread:
    """How often, by size. `examples` names one observation of each bucket, the latest."""

    __slots__ = ("bounds", "counts", "examples", "sum")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.examples: list[tuple[str, float] | None] = [None] * (len(bounds) + 1)
        self.sum = 0.0

    def observe(self, value: float, example: str | None = None) -> None:
        """One more."""
        place = bisect_left(self.bounds, value)
        self.counts[place] += 1
        self.sum += value
        if example is not None:
            self.examples[place] = (example, value)
