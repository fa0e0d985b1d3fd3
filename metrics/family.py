"""One instrument: a name, a help text, label names, and a child for each combination of label values.

Rules: a child is looked up by its label values. An unknown combination is first mapped through the `LabelWords` of each
label, so the number of children is bounded by them.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from ostler.metrics.children import CounterValue, GaugeValue, Spread, Total
from ostler.metrics.words import LabelWords

Child = TypeVar("Child", CounterValue, GaugeValue, Spread, Total)

KINDS = {CounterValue: "counter", GaugeValue: "gauge", Spread: "histogram", Total: "summary"}
UNITS = ("seconds", "bytes")


@dataclass(frozen=True, slots=True)
class Label:
    """A label name and the values that it may have."""

    name: str
    words: LabelWords


class Instrument(Generic[Child]):
    """One metric with all its children. Created by `MetricRegistry`."""

    def __init__(self, name: str, text: str, labels: Sequence[Label], make: Callable[[], Child]) -> None:
        self.name = name
        """The full name, with `_total` for a counter."""
        self.text = text
        self.labels = tuple(labels)
        self._make: Callable[[], Child] = make
        self._children: dict[tuple[str, ...], Child] = {}
        self.kind = KINDS[type(make())]
        if not labels:
            self.of()

    @property
    def base(self) -> str:
        """The family name in OpenMetrics: without `_total`."""
        return self.name.removesuffix("_total") if self.kind == "counter" else self.name

    @property
    def unit(self) -> str:
        """The unit that the name ends in; "" for none."""
        return next((unit for unit in UNITS if self.base.endswith(f"_{unit}")), "")

    def of(self, *values: str) -> Child:
        """The child with these label values, created at first use."""
        child = self._children.get(values)
        return self._bounded(values) if child is None else child

    def children(self) -> list[tuple[tuple[str, ...], Child]]:
        """All children at this moment; a copy, so that a slow reader does not block a writer."""
        return list(self._children.items())

    def keep(self, wanted: Iterable[tuple[str, ...]]) -> None:
        """Remove all children but these: a thing that no longer exists must not report a level."""
        kept = set(wanted)
        for values in [values for values in self._children if values not in kept]:
            del self._children[values]

    def words(self, values: tuple[str, ...]) -> tuple[str, ...]:
        """The label values that stand for these, `other` included."""
        if len(values) != len(self.labels):
            raise ValueError(f"{self.name} has the labels {[label.name for label in self.labels]}, not {len(values)}")
        return tuple(label.words.word(value) for label, value in zip(self.labels, values, strict=True))

    def _bounded(self, values: tuple[str, ...]) -> Child:
        words = self.words(values)
        child = self._children.get(words)
        if child is None:
            child = self._children[words] = self._make()
        return child


def show(family: Instrument[GaugeValue], levels: Mapping[tuple[str, ...], float]) -> None:
    """Show exactly these levels. Values that map to the same label value are added up."""
    sums: dict[tuple[str, ...], float] = {}
    for values, level in levels.items():
        words = family.words(values)
        sums[words] = sums.get(words, 0.0) + level
    family.keep(sums)
    for words, level in sums.items():
        family.of(*words).set(level)
