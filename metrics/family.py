"""One instrument: a metric of prometheus-client whose label values are bounded, or values that other components count.

Rules: unknown label values are mapped through the `LabelWords` of each label, so the number of series is bounded by
them. A `Family` may be written by any thread. A `Shown` is replaced as a whole, so any thread may read it.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from prometheus_client import Counter, Gauge, Histogram
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from ostler.metrics.words import LabelWords

Child = TypeVar("Child", Counter, Gauge, Histogram)
UNITS = ("seconds", "bytes")
PARTS = {"counter": "_total", "gauge": ""}


@dataclass(frozen=True, slots=True)
class MetricName:
    """A metric's name, its help text, and its labels with the values that each may have."""

    name: str
    text: str
    labels: Mapping[str, LabelWords]

    @property
    def unit(self) -> str:
        """The unit that the name ends in; "" for none."""
        return next((unit for unit in UNITS if self.name.endswith(f"_{unit}")), "")

    def words(self, values: Sequence[str]) -> tuple[str, ...]:
        """The label values that stand for these, `other` included."""
        if len(values) != len(self.labels):
            raise ValueError(f"{self.name} has the labels {[*self.labels]}, not {len(values)}")
        return tuple(words.word(value) for words, value in zip(self.labels.values(), values, strict=True))


class Family(Generic[Child]):
    """A metric with its children: counted where things happen."""

    def __init__(self, named: MetricName, metric: Child) -> None:
        self.named = named
        self._metric: Child = metric
        self._children: dict[tuple[str, ...], Child] = {}

    def of(self, *values: str) -> Child:
        """The child with these label values, created at first use."""
        child = self._children.get(values)
        return self._bounded(values) if child is None else child

    def _bounded(self, values: tuple[str, ...]) -> Child:
        words = self.named.words(values)
        child = self._children[words] = self._metric.labels(*words) if words else self._metric
        return child


class Shown(Collector):
    """Values that other components count or hold, as they were at the last refresh."""

    def __init__(self, named: MetricName, kind: str) -> None:
        self.named = named
        self.kind = kind
        self._samples: dict[tuple[str, tuple[str, ...]], float] = {}

    def show(self, levels: Mapping[tuple[str, ...], float]) -> None:
        """Show exactly these levels. Values that map to the same label value are added up."""
        self._samples = self._added_up(levels)

    def raise_to(self, totals: Mapping[tuple[str, ...], float]) -> None:
        """Show these totals beside those shown before; none goes down."""
        before = self._samples
        self._samples = before | {key: max(total, before.get(key, 0)) for key, total in self._added_up(totals).items()}

    def sum_up(self, count: float, total: float) -> None:
        """Show a summary without labels: a count and a sum."""
        self._samples = {("_count", ()): count, ("_sum", ()): total}

    def collect(self) -> Iterator[Metric]:
        """The samples as a metric of prometheus-client."""
        name, text, labels = self.named.name, self.named.text, self.named.labels
        metric = Metric(name.removesuffix("_total"), text, self.kind, self.named.unit)
        for (part, values), value in self._samples.items():
            metric.add_sample(metric.name + part, dict(zip(labels, values, strict=True)), value)
        yield metric

    def _added_up(self, levels: Mapping[tuple[str, ...], float]) -> dict[tuple[str, tuple[str, ...]], float]:
        sums: dict[tuple[str, tuple[str, ...]], float] = {}
        for values, level in levels.items():
            key = (PARTS[self.kind], self.named.words(values))
            sums[key] = sums.get(key, 0.0) + level
        return sums
