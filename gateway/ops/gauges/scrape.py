"""The route `GET /metrics`.

Rules: levels are read on the event loop, and the text is written in a thread, one scrape at a time. The loop may wait
for the interpreter at each wake-up meanwhile (0.5 ms: ADR 35). `AuthMiddleware` decides who may read it.
"""

import asyncio

from starlette.requests import Request
from starlette.responses import Response

from ostler.gateway.http.routes import RouteSpec
from ostler.metrics.registry import MetricRegistry

PATH = "/metrics"
TEXT = "text/plain; version=0.0.4; charset=utf-8"
OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"


class Scrape:
    """Renders all metrics as text."""

    def __init__(self, metric_registry: MetricRegistry) -> None:
        self._metric_registry = metric_registry
        self._turn = asyncio.Lock()

    async def metrics(self, request: Request) -> Response:
        """Handle `GET /metrics`, in the format that the client accepts."""
        openmetrics = "application/openmetrics-text" in request.headers.get("accept", "")
        async with self._turn:
            self._metric_registry.refresh()
            text = await asyncio.to_thread(self._metric_registry.exposition, openmetrics=openmetrics)
        return Response(text, headers={"content-type": OPENMETRICS if openmetrics else TEXT})

    def row(self) -> RouteSpec:
        """The entry for the table of routes."""
        return RouteSpec("GET", PATH, self.metrics, "What is counted, for Prometheus", answers="text/plain")
