"""Every request has a name: the client's (`X-Request-Id`) or ours. It stands in every log line and goes back with the
answer. Plain ASGI: see `door`.

It is the outermost, so what nobody else has answered is answered here: a fault of ours, and still an envelope.
"""

import logging
from collections.abc import Callable

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ostler.gateway.http.errors import reply, translated
from ostler.gateway.model.correlation import on_behalf_of, origin_of

log = logging.getLogger(__name__)
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

        begun = False

        async def outward(message: Message) -> None:
            nonlocal begun
            if message["type"] == "http.response.start":
                begun = True
                message["headers"] = [*message.get("headers", ()), named]
            await send(message)

        with on_behalf_of(origin):
            try:
                await self._app(scope, receive, outward)
            except Exception as error:
                if begun:
                    raise
                log.exception("%s %r failed", scope["method"], scope["path"])
                await reply(translated(error))(scope, receive, outward)
