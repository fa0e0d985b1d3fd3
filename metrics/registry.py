"""The instruments of one registry, and how they are written out.

Rules:
- The caller owns the registry: a `MetricRegistry` is one collector in it, so an embedder finds these instruments in its
  own registry.
- `pieces` writes the exposition a bounded number of series at a time, so that its caller can yield to the event loop
  between two pieces. `generate_latest` of prometheus-client holds the interpreter for the whole of it, in a thread as
  well.
- Values that are read at the time of a scrape (levels of the pool, for instance) are set by `before_scrape` callbacks.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import Metric
from prometheus_client.openmetrics.exposition import generate_latest as generate_openmetrics
from prometheus_client.registry import Collector

from ostler.metrics.children import CounterValue, GaugeValue, Spread, Total
from ostler.metrics.exposition import AnyFamily, head, lines, samples
from ostler.metrics.family import Instrument, Label
from ostler.metrics.words import LabelWords

PIECE = 250
"""Lines in one piece: about a quarter of a millisecond."""
MOST = 50
END = "# EOF\n"


class MetricRegistry(Collector):
    """All instruments of a gateway, as one collector. Create one per gateway."""

    def __init__(self, registry: CollectorRegistry) -> None:
        self._families: dict[str, AnyFamily] = {}
        self._words: dict[str, LabelWords] = {}
        self._refreshers: list[Callable[[], None]] = []
        self.others = CollectorRegistry()
        """Collectors of other libraries: of the interpreter, of the process."""
        registry.register(self)

    # --- declaring ---

    def counter(self, name: str, text: str, *labels: str) -> Instrument[CounterValue]:
        """Declare a counter; its name must end in `_total`."""
        if not name.endswith("_total"):
            raise ValueError(f"{name} counts: its name must end in _total")
        family = Instrument(name, text, self._labels(labels), CounterValue)
        self._put(family)
        return family

    def gauge(self, name: str, text: str, *labels: str) -> Instrument[GaugeValue]:
        """Declare a gauge: a level."""
        family = Instrument(name, text, self._labels(labels), GaugeValue)
        self._put(family)
        return family

    def summary(self, name: str, text: str, *labels: str) -> Instrument[Total]:
        """Declare a summary: count and sum."""
        family = Instrument(name, text, self._labels(labels), Total)
        self._put(family)
        return family

    def histogram(self, name: str, text: str, *labels: str, bounds: Sequence[float]) -> Instrument[Spread]:
        """Declare a histogram: count, sum and buckets."""
        family = Instrument(name, text, self._labels(labels), lambda: Spread(bounds))
        self._put(family)
        return family

    def words(self, label: str) -> LabelWords:
        """The values that a label may have; shared by all instruments with a label of this name."""
        return self._words.setdefault(label, LabelWords(MOST))

    def before_scrape(self, refresh: Callable[[], None]) -> None:
        """Register a callback that runs before the values are written out."""
        self._refreshers.append(refresh)

    @property
    def families(self) -> Sequence[AnyFamily]:
        """All declared instruments, in order of declaration."""
        return tuple(self._families.values())

    # --- writing out ---

    def refresh(self) -> None:
        """Run the `before_scrape` callbacks."""
        for refresh in self._refreshers:
            refresh()

    def pieces(self, *, openmetrics: bool) -> Iterator[str]:
        """The whole exposition in pieces. Call `refresh` first."""
        for family in self.families:
            piece = [head(family, openmetrics=openmetrics)]
            for values, child in family.children():
                piece += lines(family, values, child, openmetrics=openmetrics)
                if len(piece) >= PIECE:
                    yield "".join(piece)
                    piece = []
            yield "".join(piece)
        if openmetrics:
            text: bytes = generate_openmetrics(self.others)  # type: ignore[no-untyped-call] # it is not annotated
            yield text.decode().removesuffix(END)
            yield END
        else:
            yield generate_latest(self.others).decode()

    def describe(self) -> Iterable[Metric]:
        """Empty: prometheus-client calls it at registration, and would otherwise call `collect` then."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """All metrics, for readers of the registry itself. Calls `refresh`."""
        self.refresh()
        for family in self.families:
            metric = Metric(family.base, family.text, family.kind)
            for name, labels, value in samples(family):
                metric.add_sample(name, labels, value)
            yield metric
        yield from self.others.collect()

    def _labels(self, names: Sequence[str]) -> list[Label]:
        return [Label(name, self.words(name)) for name in names]

    def _put(self, family: AnyFamily) -> None:
        if family.name in self._families:
            raise ValueError(f"{family.name} is declared twice")
        self._families[family.name] = family
