"""Assembles the metrics of one gateway; without metrics, the observers that do nothing."""

import platform
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Self, TypeAlias

from prometheus_client import CollectorRegistry, GCCollector, PlatformCollector, ProcessCollector
from starlette.types import ASGIApp

from ostler.gateway.config.settings import Settings
from ostler.gateway.http.routes import RouteSpec
from ostler.gateway.memory.watch import MemoryWatch, NoMemoryWatch
from ostler.gateway.model.errors import StoreBusy, StoreCorrupt, StoreDiskFault, StoreFull, StoreLocked, StoreReadOnly
from ostler.gateway.model.model_names import Models
from ostler.gateway.model.release import version
from ostler.gateway.model.store import NoStoreWatch, StoreWatch
from ostler.gateway.ops.gauges.census import LevelReader
from ostler.gateway.ops.gauges.lag import LoopLag
from ostler.gateway.ops.gauges.observers import MemoryGauges, PoolGauges, StoreGauges, TurnGauges
from ostler.gateway.ops.gauges.requests import RequestMetrics
from ostler.gateway.ops.gauges.scrape import Scrape
from ostler.gateway.turns.reports import NoTurnObserver, TurnObserver
from ostler.metrics.instruments import Instruments
from ostler.metrics.loops import Loops
from ostler.metrics.registry import MetricRegistry
from ostler.pool.observer import NoPoolObserver, Observer

STORE_FAULTS = (StoreBusy, StoreCorrupt, StoreDiskFault, StoreFull, StoreLocked, StoreReadOnly)


class NoGauges:
    """Takes the place of `Gauges` when metrics are disabled."""

    pool: Observer
    store: StoreWatch
    turns: TurnObserver
    memory: MemoryWatch

    def __init__(self) -> None:
        self.pool, self.store, self.turns = NoPoolObserver(), NoStoreWatch(), NoTurnObserver()
        self.memory = NoMemoryWatch()

    @contextmanager
    def reading(
        self,
        census: Callable[..., LevelReader],  # noqa: ARG002 - the signature of `Gauges.reading`
        loops: Loops | None = None,  # noqa: ARG002 - see above
    ) -> Iterator[None]:
        yield

    def rows(self) -> list[RouteSpec]:
        """Metrics are disabled, so there is no route."""
        return []

    def around(self, app: ASGIApp) -> ASGIApp:
        """Return the application unchanged."""
        return app


@dataclass(frozen=True, slots=True)
class Gauges:
    """All observers of one gateway. Created by `app.py`, which hands each part to the component it observes."""

    instruments: Instruments
    pool: PoolGauges
    store: StoreGauges
    turns: TurnGauges
    memory: MemoryGauges

    @classmethod
    def open(cls, registry: CollectorRegistry, settings: Settings, models: Models) -> Self:
        """Declare every instrument in this registry, and announce the label values that are known in advance."""
        metric_registry = MetricRegistry(registry)
        for theirs in (ProcessCollector, PlatformCollector, GCCollector):
            theirs(registry=metric_registry.series)
        instruments = Instruments(metric_registry)
        metric_registry.words("provider").announce(models.providers)
        named = [models.default, *models.aliases.values(), *(warm.model for warm in settings.pool.warm)]
        metric_registry.words("model").announce(
            found[1] for name in named if (found := models.resolve(name)) is not None
        )
        metric_registry.words("place").announce(settings.metrics.places)
        metric_registry.words("memory").announce(settings.memory.providers)
        # Prometheus sees an increase only from an existing sample. Start at 0, so that the first death raises an alert
        # too.
        for provider in models.providers:
            instruments.pool.deaths.of(provider)
            instruments.pool.leaks.of(provider)
        for kind in STORE_FAULTS:
            instruments.store.errors.of(kind.__name__)
        instruments.gateway.build.of(version("ostler"), platform.python_version()).set(1)
        return cls(
            instruments,
            PoolGauges(instruments.pool),
            StoreGauges(instruments.store),
            TurnGauges(instruments.turns, instruments.pool),
            MemoryGauges(instruments.memory),
        )

    @contextmanager
    def reading(self, census: Callable[..., LevelReader], loops: Loops | None = None) -> Iterator[None]:
        """While the gateway runs: read levels at each scrape, and measure the lag of the event loop."""
        self.instruments.registry.before_scrape(census(instruments=self.instruments, gauges=self.pool).refresh)
        lag = LoopLag(self.instruments.gateway.lag.of().observe, loops=loops)
        lag.start()
        try:
            yield
        finally:
            lag.stop()

    def rows(self) -> list[RouteSpec]:
        """The routes that serve the metrics."""
        return [Scrape(self.instruments.registry).row()]

    def around(self, app: ASGIApp) -> ASGIApp:
        """Wrap the application so that its requests are counted."""
        return RequestMetrics(app, self.instruments.gateway)


MakeGauges: TypeAlias = Callable[[CollectorRegistry, Settings, Models], Gauges | NoGauges]


def open_gauges(registry: CollectorRegistry, settings: Settings, models: Models) -> Gauges | NoGauges:
    """The gauges that the settings ask for."""
    return Gauges.open(registry, settings, models) if settings.metrics.enabled else NoGauges()
