"""Counts requests outside `AuthMiddleware`, so that refused ones count too.

Plain ASGI: Starlette's middleware class hides the disconnect of a client, which would lose the cancellation of its
turn.
"""

import time
from collections.abc import Callable

from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ostler.metrics.instruments import GatewayInstruments

NO_ROUTE = "(none)"
EVENTS = b"text/event-stream"
METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})


class RequestMetrics:
    """Wraps the application and records one observation per request."""

    def __init__(self, app: ASGIApp, into: GatewayInstruments, clock: Callable[[], float] = time.monotonic) -> None:
        self._app = app
        self._into = into
        self._clock = clock

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        answer = Departure(self._into, send)
        began = self._clock()
        try:
            await self._app(scope, answer.hearing(receive), answer.send)
        finally:
            answer.leave()
            method, route = scope["method"] if scope["method"] in METHODS else "other", route_of(scope)
            self._into.seconds.of(method, route).observe(self._clock() - began)
            if answer.left or not answer.whole:
                self._into.disconnects.of(route).inc()
            else:
                self._into.requests.of(method, route, str(answer.status)).inc()


class Departure:
    """Observes the answer to one request."""

    def __init__(self, into: GatewayInstruments, send: Send) -> None:
        self._into = into
        self._send = send
        self._streaming = False
        self.status = 0
        self.whole = False
        self.left = False
        """Whether the client disconnected before the answer was complete."""

    async def send(self, message: Message) -> None:
        """Pass a message of the answer on, and record its status and end."""
        if message["type"] == "http.response.start":
            self.status = message["status"]
            self._streaming = any(name == b"content-type" and EVENTS in value for name, value in message["headers"])
            if self._streaming:
                self._into.streams.of().inc()
        await self._send(message)
        if message["type"] == "http.response.body" and not message.get("more_body", False):
            self.whole = True

    def hearing(self, receive: Receive) -> Receive:
        """Wrap `receive` to notice a disconnect: later messages to the client are dropped without an error."""

        async def heard() -> Message:
            message = await receive()
            if message["type"] == "http.disconnect" and not self.whole:
                self.left = True
            return message

        return heard

    def leave(self) -> None:
        """Called once, when the request is over."""
        if self._streaming:
            self._into.streams.of().inc(-1)


def route_of(scope: Scope) -> str:
    """The template of the route. The path is no label: it contains ids, and clients can invent any number of paths."""
    route = scope.get("route")
    return route.path if isinstance(route, Route) else NO_ROUTE
