"""Gives every request a name: the client's (`X-Request-Id`) or a new one. The name is in every log line and in the
answer.

Plain ASGI, for the reason given in `auth_middleware`. This is the outermost layer, so an error that no inner layer has
answered is answered here: it is a bug of ours, and the answer is still an envelope.
"""

import logging
from collections.abc import Callable

from starlette.types import ASGIApp, Message, Receive, Scope, Send

from ostler.gateway.http.errors import reply, translated
from ostler.gateway.model.correlation import on_behalf_of, origin_of

log = logging.getLogger(__name__)
HEADER = b"x-request-id"


class Correlated:
    """Wraps the application: names the request, and answers errors that no other layer has answered."""

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
