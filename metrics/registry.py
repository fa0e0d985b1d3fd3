"""The instruments of one registry, and how they are written out.

Rules:
- The caller owns the registry: a `MetricRegistry` is one collector in it, so an embedder finds these instruments in its
  own registry.
- Values that are read at the time of a scrape (levels of the pool, for instance) are set by `before_scrape` callbacks,
  on the thread that counts them. `exposition` may then run on any thread.
"""

from collections.abc import Callable, Iterator, Sequence

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.core import Metric
from prometheus_client.openmetrics.exposition import ALLOWUTF8
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics
from prometheus_client.registry import Collector

from ostler.metrics.family import Family, MetricName, Shown
from ostler.metrics.words import LabelWords

MOST = 50


class Series(CollectorRegistry):
    """Leaves out the time of each series' creation, which would be half as many series again."""

    def collect(self) -> Iterator[Metric]:
        """All metrics of the collectors in this registry."""
        for metric in super().collect():
            metric.samples = [sample for sample in metric.samples if not sample.name.endswith("_created")]
            yield metric


class MetricRegistry(Collector):
    """All instruments of a gateway, as one collector. Create one per gateway."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self.series = Series(auto_describe=True)
        """The instruments; collectors of other libraries (of the interpreter, of the process) may be added."""
        self._words: dict[str, LabelWords] = {}
        self._refreshers: list[Callable[[], None]] = []
        registry.register(self)

    # --- declaring ---

    def counter(self, name: str, text: str, *labels: str) -> Family[Counter]:
        """Declare a counter; its name must end in `_total`."""
        named = self._counted(name, text, labels)
        return Family(named, Counter(name, text, labels, registry=self.series))

    def gauge(self, name: str, text: str, *labels: str) -> Family[Gauge]:
        """Declare a gauge: a level."""
        named = self._named(name, text, labels)
        return Family(named, Gauge(name, text, labels, unit=named.unit, registry=self.series))

    def histogram(self, name: str, text: str, *labels: str, bounds: Sequence[float]) -> Family[Histogram]:
        """Declare a histogram: count, sum and buckets."""
        named = self._named(name, text, labels)
        return Family(named, Histogram(name, text, labels, unit=named.unit, registry=self.series, buckets=bounds))

    def levels(self, name: str, text: str, *labels: str) -> Shown:
        """Declare a gauge whose series are read from other components at a scrape."""
        return self._shown(self._named(name, text, labels), "gauge")

    def totals(self, name: str, text: str, *labels: str) -> Shown:
        """Declare a counter whose series are counted by other components; its name must end in `_total`."""
        return self._shown(self._counted(name, text, labels), "counter")

    def summary(self, name: str, text: str) -> Shown:
        """Declare a summary that another component counts: count and sum."""
        return self._shown(self._named(name, text, ()), "summary")

    def words(self, label: str) -> LabelWords:
        """The values that a label may have; shared by all instruments with a label of this name."""
        return self._words.setdefault(label, LabelWords(MOST))

    def before_scrape(self, refresh: Callable[[], None]) -> None:
        """Register a callback that runs before the values are written out."""
        self._refreshers.append(refresh)

    # --- writing out ---

    def refresh(self) -> None:
        """Run the `before_scrape` callbacks."""
        for refresh in self._refreshers:
            refresh()

    def exposition(self, *, openmetrics: bool) -> bytes:
        """All series as text. Call `refresh` first."""
        # No name of ours needs escaping; by default every character of it is looked at, for each of its series.
        if openmetrics:
            text: bytes = generate_openmetrics(self.series, ALLOWUTF8)  # type: ignore[no-untyped-call] # it is not annotated
            return text
        return generate_latest(self.series, ALLOWUTF8)

    def describe(self) -> Iterator[Metric]:
        """Empty: prometheus-client calls it at registration, and would otherwise call `collect` then."""
        return iter(())

    def collect(self) -> Iterator[Metric]:
        """All metrics, for readers of the registry itself. Calls `refresh`."""
        self.refresh()
        return self.series.collect()

    def _counted(self, name: str, text: str, labels: Sequence[str]) -> MetricName:
        if not name.endswith("_total"):
            raise ValueError(f"{name} counts: its name must end in _total")
        return self._named(name, text, labels)

    def _named(self, name: str, text: str, labels: Sequence[str]) -> MetricName:
        return MetricName(name, text, {label: self.words(label) for label in labels})

    def _shown(self, named: MetricName, kind: str) -> Shown:
        shown = Shown(named, kind)
        self.series.register(shown)
        return shown
