"""The checks of an HTTP request before its body is read. Pure: a scope in, facts or an `HttpRefusal` out.

Rules: a web page can make a browser on this machine send requests here (DNS rebinding), so a Host or Origin that is not
this machine is refused before anything else is read. A header that a check depends on may appear only once. Missing,
malformed, unknown and revoked tokens get the same answer, byte for byte.
"""

import re
from collections.abc import Awaitable, Callable, Mapping, MutableMapping
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from ostler.bridge.errors import NotBound
from ostler.bridge.mcp import (
    HANDSHAKE_VERSIONS,
    STATELESS_VERSION,
    UNSUPPORTED_VERSION,
    fault_frame,
    refusal_frame,
)
from ostler.wire.json import JsonObject
from ostler.wire.rpc import INVALID_REQUEST, RpcId

Scope: TypeAlias = MutableMapping[str, Any]
HttpMessage: TypeAlias = MutableMapping[str, Any]
Receive: TypeAlias = Callable[[], Awaitable[HttpMessage]]
AsgiSend: TypeAlias = Callable[[HttpMessage], Awaitable[None]]

JSON: Final = "application/json"
EVENTS: Final = "text/event-stream"
SESSION: Final = "mcp-session-id"

_LOOPBACK = re.compile(r"(?:localhost|127\.0\.0\.1|\[::1\])(?::\d{1,5})?\Z", re.IGNORECASE)
_DECIDING: Final = frozenset({"host", "origin", "authorization", SESSION, "mcp-protocol-version", "content-type"})


class HttpRefusal(Exception):
    """Ends the request with this status, body and headers."""

    def __init__(self, status: int, body: bytes, headers: Mapping[str, str] | None = None) -> None:
        self.status = status
        self.body = body
        self.headers = headers or {}
        super().__init__(f"HTTP {status}")


def refusal(
    status: int,
    message: str,
    *,
    code: int = INVALID_REQUEST,
    data: JsonObject | None = None,
    request_id: RpcId = None,
) -> HttpRefusal:
    return HttpRefusal(status, fault_frame(request_id, code, message, data))


def not_bound() -> HttpRefusal:
    return HttpRefusal(401, refusal_frame(None, NotBound()), {"www-authenticate": "Bearer"})


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """Method, path and headers of a request. The `require_` methods raise `HttpRefusal`."""

    method: str
    path: str
    headers: Mapping[str, str]

    @classmethod
    def of(cls, scope: Scope) -> "HttpRequest":
        headers: dict[str, str] = {}
        for raw_name, raw_value in scope["headers"]:
            name = raw_name.decode("latin-1").lower()
            if name in headers and name in _DECIDING:
                raise refusal(400, f"the header {name} came twice")
            headers[name] = raw_value.decode("latin-1").strip()
        return cls(scope["method"], scope["path"], headers)

    def require_this_machine(self) -> None:
        host, origin = self.headers.get("host", ""), self.headers.get("origin")
        if _LOOPBACK.match(host) is None:
            raise refusal(403, "this server answers to localhost only")
        if origin is not None and not _is_loopback_origin(origin):
            raise refusal(403, "this server answers to pages of localhost only")

    @property
    def bearer(self) -> str:
        """The bearer token; "" if the header is missing or has another scheme, and no lookup finds that."""
        scheme, _, token = self.headers.get("authorization", "").partition(" ")
        return token.strip() if scheme.lower() == "bearer" else ""

    @property
    def session(self) -> str | None:
        return self.headers.get(SESSION)

    @property
    def version(self) -> str | None:
        return self.headers.get("mcp-protocol-version")

    def accepts(self, kind: str) -> bool:
        accepted = self.headers.get("accept", "*/*")
        kinds = {each.partition(";")[0].strip().lower() for each in accepted.split(",")}
        return bool(kinds & {kind, "*/*", kind.partition("/")[0] + "/*"})

    def require_json(self) -> None:
        if self.headers.get("content-type", "").partition(";")[0].strip().lower() != JSON:
            raise refusal(415, f"the content type must be {JSON}")
        if not self.accepts(JSON) or not self.accepts(EVENTS):
            raise refusal(406, f"accept both {JSON} and {EVENTS}")

    def require_known_version(self, ident: RpcId = None) -> None:
        """Refuse an unknown protocol version. A known one need not be the session's: clients do not take care of it."""
        supported = [STATELESS_VERSION, *HANDSHAKE_VERSIONS]
        if self.version is not None and self.version not in supported:
            data = {"supported": supported, "requested": self.version}
            raise refusal(400, "unsupported protocol version", code=UNSUPPORTED_VERSION, data=data, request_id=ident)


def _is_loopback_origin(origin: str) -> bool:
    scheme, separator, host = origin.partition("://")
    return scheme in ("http", "https") and bool(separator) and _LOOPBACK.match(host) is not None
