"""The checks of a request in the stateless revision: every request carries what a session would have stored.

Pure. Errors carry the request's id, and their codes decide the HTTP status, so that proxies can interpret them.
"""

import base64
import binascii
from typing import Final

from ostler.bridge.channels.http_request import HttpRefusal, HttpRequest, refusal
from ostler.bridge.mcp import STATELESS_VERSION, UNSUPPORTED_VERSION, VERSION_KEY, is_request_id
from ostler.wire.json import JsonObject, decode
from ostler.wire.rpc import INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND, PARSE_ERROR, RpcId

CAPABILITIES_KEY: Final = "io.modelcontextprotocol/clientCapabilities"
HEADER_MISMATCH: Final = -32020

METHODS: Final = frozenset({"server/discover", "tools/list", "tools/call", "subscriptions/listen"})
STATUS: Final = {
    METHOD_NOT_FOUND: 404,
    **dict.fromkeys((PARSE_ERROR, INVALID_REQUEST, INVALID_PARAMS, HEADER_MISMATCH, UNSUPPORTED_VERSION), 400),
}


def is_stateless(request: HttpRequest, message: JsonObject) -> bool:
    """Whether it has no session id, and the message names any revision or the header names this one."""
    if request.session is not None:
        return False
    return VERSION_KEY in _meta(message) or request.version == STATELESS_VERSION


def check(request: HttpRequest, message: JsonObject) -> None:
    """Raise `HttpRefusal` for a request that the stateless revision does not allow."""
    ident = message.get("id")
    if "method" not in message or not is_request_id(ident):
        raise refusal(400, "this revision has requests from clients, and nothing else")
    _require_meta(message, ident)
    _require_agreement(request, message, ident)
    if message["method"] not in METHODS:
        raise _fault(METHOD_NOT_FOUND, f"method not found: {str(message['method'])[:128]}", ident)


def status_of(answer: bytes) -> int:
    """The HTTP status that goes with a JSON-RPC answer."""
    error = decode(answer).get("error")
    return 200 if error is None else STATUS.get(error["code"], 200)


def _require_meta(message: JsonObject, ident: RpcId) -> None:
    missing = [key for key in (VERSION_KEY, CAPABILITIES_KEY) if key not in _meta(message)]
    if missing:
        raise _fault(INVALID_PARAMS, f"params._meta lacks {' and '.join(missing)}", ident)


def _require_agreement(request: HttpRequest, message: JsonObject, ident: RpcId) -> None:
    """Method, name and version must be repeated in headers, because proxies route by them."""
    said = {"mcp-protocol-version": _meta(message)[VERSION_KEY], "mcp-method": message["method"]}
    if message["method"] == "tools/call":
        said["mcp-name"] = message["params"].get("name")
    for name, value in said.items():
        if _decoded(request.headers.get(name)) != value:
            raise _fault(HEADER_MISMATCH, f"the header {name} does not match the request", ident)


def _meta(message: JsonObject) -> JsonObject:
    params = message.get("params")
    meta = params.get("_meta") if isinstance(params, dict) else None
    return meta if isinstance(meta, dict) else {}


def _fault(code: int, text: str, ident: RpcId) -> HttpRefusal:
    return refusal(STATUS[code], text, code=code, request_id=ident)


def _decoded(value: str | None) -> str | None:
    """Decode a header value; text that a header cannot hold is sent as `=?base64?...?=`."""
    if value is None or not (value.startswith("=?base64?") and value.endswith("?=")):
        return value
    try:
        return base64.b64decode(value[9:-2], validate=True).decode()
    except (binascii.Error, UnicodeDecodeError):
        return None
