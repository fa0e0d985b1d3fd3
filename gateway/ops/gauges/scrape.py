"""The route `GET /metrics`.

Rules: the text is written in pieces of about a quarter of a millisecond, and other tasks run between two pieces. A
thread would be worse: it holds the interpreter for 5 ms at a time. `AuthMiddleware` decides who may read it.
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

    async def metrics(self, request: Request) -> Response:
        """Handle `GET /metrics`, in the format that the client accepts."""
        openmetrics = "application/openmetrics-text" in request.headers.get("accept", "")
        self._metric_registry.refresh()
        pieces = []
        for piece in self._metric_registry.pieces(openmetrics=openmetrics):
            pieces.append(piece)
            await asyncio.sleep(0)
        return Response("".join(pieces), headers={"content-type": OPENMETRICS if openmetrics else TEXT})

    def row(self) -> RouteSpec:
        """The entry for the table of routes."""
        return RouteSpec("GET", PATH, self.metrics, "What is counted, for Prometheus", answers="text/plain")
