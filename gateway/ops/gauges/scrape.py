"""GET /metrics.

Rules: written in pieces of a quarter of a millisecond, and between two of them everybody else has a turn of the loop. A
thread would not do: it holds the interpreter just the same, for five milliseconds at a time. Who may read it is the
door's affair.
"""

import asyncio

from starlette.requests import Request
from starlette.responses import Response

from ostler.gateway.http.routes import RouteSpec
from ostler.metrics.shelf import MetricRegistry

PATH = "/metrics"
TEXT = "text/plain; version=0.0.4; charset=utf-8"
OPENMETRICS = "application/openmetrics-text; version=1.0.0; charset=utf-8"


class Scrape:
    """The route."""

    def __init__(self, shelf: MetricRegistry) -> None:
        self._shelf = shelf

    async def metrics(self, request: Request) -> Response:
        """GET /metrics"""
        openmetrics = "application/openmetrics-text" in request.headers.get("accept", "")
        self._shelf.refresh()
        pieces = []
        for piece in self._shelf.pieces(openmetrics=openmetrics):
            pieces.append(piece)
            await asyncio.sleep(0)
        return Response("".join(pieces), headers={"content-type": OPENMETRICS if openmetrics else TEXT})

    def row(self) -> RouteSpec:
        """Its place in the table of routes."""
        return RouteSpec("GET", PATH, self.metrics, "What is counted, for Prometheus", answers="text/plain")
