"""The values behind one time series each: plain attributes, no lock.

Rules: one thread writes a value, any thread may read it. A scrape may read a value that is a moment old, never a torn
one: reading an attribute is one step of the interpreter. (A locked counter of prometheus-client costs seven times as
much, and a turn would pay for a dozen of them.)
"""

from bisect import bisect_left
from collections.abc import Sequence


class CounterValue:
    """A number that only grows."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value: float = 0

    def add(self, amount: float = 1) -> None:
        """Increase the counter by `amount`."""
        self.value += amount

    def raise_to(self, total: float) -> None:
        """Set the counter to a total that another component counts; it never goes down."""
        self.value = max(self.value, total)


class GaugeValue:
    """A number that goes up and down."""

    __slots__ = ("value",)

    def __init__(self) -> None:
        self.value: float = 0

    def set(self, value: float) -> None:
        """Set the gauge to this value."""
        self.value = float(value)

    def add(self, amount: float = 1) -> None:
        """Change the gauge by `amount`, which may be negative."""
        self.value += amount


class Total:
    """A count and a sum: a histogram without its buckets."""

    __slots__ = ("count", "sum")

    def __init__(self) -> None:
        self.count: float = 0
        self.sum: float = 0.0

    def raise_to(self, count: float, total: float) -> None:
        """Set both numbers to totals that another component counts."""
        self.count, self.sum = count, total


class Spread:
    """A histogram: a count for each bucket and a sum. `examples` names the latest observation of each bucket."""

    __slots__ = ("bounds", "counts", "examples", "sum")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.examples: list[tuple[str, float] | None] = [None] * (len(bounds) + 1)
        self.sum = 0.0

    def observe(self, value: float, example: str | None = None) -> None:
        """Count one observation; `example` names it in the exemplar of its bucket."""
        place = bisect_left(self.bounds, value)
        self.counts[place] += 1
        self.sum += value
        if example is not None:
            self.examples[place] = (example, value)
