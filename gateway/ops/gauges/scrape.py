"""The route `GET /metrics`.

Rules: levels are read on the event loop, and the text is written on a thread of its own, so that no dead disk that
holds other threads hides the metrics. Scrapers that ask meanwhile get the same text. The loop may wait for the
interpreter at each wake-up (0.5 ms: ADR 35). `AuthMiddleware` decides who may read it.
"""

import asyncio
from functools import partial

from starlette.requests import Request
from starlette.responses import Response

from ostler.gateway.http.routes import RouteSpec
from ostler.metrics.registry import MetricRegistry
from ostler.process.probe import BlockingProbe

PATH = "/metrics"
TEXT = "text/plain; version=0.0.4; charset=utf-8"
OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"


class Scrape:
    """Renders all metrics as text."""

    def __init__(self, metric_registry: MetricRegistry) -> None:
        self._metric_registry = metric_registry
        self._writing: BlockingProbe[bytes] = BlockingProbe()

    async def metrics(self, request: Request) -> Response:
        """Handle `GET /metrics`, in the format that the client accepts."""
        openmetrics = "application/openmetrics-text" in request.headers.get("accept", "")
        if not self._writing.looking(openmetrics):
            self._metric_registry.refresh()
        text = self._writing.begin(openmetrics, partial(self._metric_registry.exposition, openmetrics=openmetrics))
        await asyncio.wait([text])  # not cancelled with this request: others may wait for it
        return Response(text.result(), headers={"content-type": OPENMETRICS if openmetrics else TEXT})

    def row(self) -> RouteSpec:
        """The entry for the table of routes."""
        return RouteSpec("GET", PATH, self.metrics, "What is counted, for Prometheus", answers="text/plain")
