"""Every request has a name: the client's (`X-Request-Id`) or ours. It stands in every log line and goes back with the
answer. Plain ASGI: see `door`."""

from collections.abc import Callable

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ostler.gateway.correlation import on_behalf_of, origin_of

HEADER = b"x-request-id"


class Correlated:
    """Wraps the application."""

    def __init__(self, app: ASGIApp, new_id: Callable[[], str]) -> None:
        self._app = app
        self._new_id = new_id

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        origin = origin_of(dict(scope["headers"]), self._new_id())
        named = (HEADER, origin.request_id.encode("latin-1"))

        async def outward(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message.get("headers", ()), named]
            await send(message)

        with on_behalf_of(origin):
            await self._app(scope, receive, outward)
