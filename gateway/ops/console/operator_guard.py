"""Admits only operators to the admin API. `AuthMiddleware` has already identified the caller.

Rules:
- With keys, only a key with `admin = true` is an operator's; another key gets 403 with advice.
- Without keys (loopback only) every admitted caller is an operator, except a page of another origin: an order from a
  browser must carry our token, which only our own page knows.
"""

import hmac

from starlette.types import ASGIApp, Receive, Scope, Send

from ostler.gateway.config.keys import Caller
from ostler.gateway.http.errors import reply
from ostler.gateway.http.origin import SAFE
from ostler.gateway.model.api_error import ApiError

TOKEN_HEADER = b"x-ostler-csrf"


class OperatorGuard:
    """Wraps the admin application as ASGI middleware."""

    def __init__(self, app: ASGIApp, token: str) -> None:
        self._app = app
        self._token = token.encode()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        error = self._judge(scope)
        await (self._app if error is None else reply(error))(scope, receive, send)

    def _judge(self, scope: Scope) -> ApiError | None:
        caller = scope["state"]["caller"]
        if not isinstance(caller, Caller) or not caller.admin:
            text = "this key is not an operator's: use one of [[auth.keys]] with admin = true, or `ostler pool` on the "
            return ApiError(403, text + "gateway's own machine", code="not_an_operator")
        headers = dict(scope["headers"])
        if scope["method"] in SAFE or b"origin" not in headers:
            return None
        if b"authorization" in headers or hmac.compare_digest(headers.get(TOKEN_HEADER, b""), self._token):
            return None
        text = "an order from a web page needs the page's own token; send it from the status page"
        return ApiError(403, text, code="foreign_page")
