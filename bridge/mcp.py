"""The Model Context Protocol, server side, for one client of one binding. Sans-io: frames in, effects out.

Rules: the binding is given at creation and no message can change it. The state lives as long as the client process, not
as long as its connection. A request gets exactly one answer, unless the client cancelled it. Protocol versions with a
handshake are negotiated by `initialize`; 2026-07-28 has none: each request names its version in `_meta`, and its
answers contain `resultType`. The messages of a batch are answered one by one.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, NamedTuple, TypeAlias, TypeGuard

from ostler.bridge.binding import Binding, BindingState, BoundCall, CallOrigin
from ostler.bridge.calls import CallResult
from ostler.bridge.errors import (
    CallRefused,
    CallWithdrawn,
    NotBound,
    NothingPublished,
    ToolsLost,
    TooManyCalls,
    UnknownTool,
)
from ostler.bridge.results import structured_of
from ostler.wire.json import VALUES_LIMIT, JsonObject, Undecodable, Unencodable, decode, encode_line
from ostler.wire.rpc import INTERNAL_ERROR, INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND, PARSE_ERROR, RpcId

HANDSHAKE_VERSIONS: Final = ("2025-11-25", "2025-06-18", "2025-03-26", "2024-11-05")
STATELESS_VERSION: Final = "2026-07-28"
VERSION_KEY: Final = "io.modelcontextprotocol/protocolVersion"
SUBSCRIPTION_KEY: Final = "io.modelcontextprotocol/subscriptionId"
UNSUPPORTED_VERSION: Final = -32022

BATCH_LIMIT: Final = 100

LEVELS: Final = ("debug", "info", "notice", "warning", "error", "critical", "alert", "emergency")

# JSON-RPC leaves -32000 to -32019 to the implementation.
REFUSAL_CODES: Final[dict[type[CallRefused], int]] = {
    NotBound: -32010,
    NothingPublished: -32011,
    CallWithdrawn: -32012,
    TooManyCalls: -32013,
    ToolsLost: -32012,
    UnknownTool: INVALID_PARAMS,
}


class SendFrame(NamedTuple):
    """Send this frame to the client."""

    frame: bytes


class BeginCall(NamedTuple):
    """Start this call; its answer is sent later with `McpSession.answer`."""

    call: BoundCall


class End(NamedTuple):
    """The client has cancelled this call; no answer is sent."""

    call: BoundCall


class Attached(NamedTuple):
    """The client listed the tools for the first time, so the seat has them."""


Effect: TypeAlias = SendFrame | BeginCall | End | Attached


class Fault(Exception):
    """The message gets a JSON-RPC error with this code."""

    def __init__(self, code: int, message: str, data: JsonObject | None = None) -> None:
        self.code = code
        self.message = message
        self.data = data
        super().__init__(message)


def is_request_id(value: object) -> TypeGuard[str | int | float]:
    return isinstance(value, str | int | float) and not isinstance(value, bool)


def fault_frame(request_id: RpcId, code: int, message: str, data: JsonObject | None = None) -> bytes:
    error: JsonObject = {"code": code, "message": message}
    if data is not None:
        error["data"] = data
    return encode_line({"jsonrpc": "2.0", "id": request_id, "error": error})


def refusal_frame(request_id: RpcId, refusal: CallRefused) -> bytes:
    return fault_frame(request_id, REFUSAL_CODES[type(refusal)], str(refusal))


def messages_of(frame: bytes) -> list[JsonObject]:
    """The messages of one frame: one, or those of a batch. Raises `Fault`."""
    try:
        document = decode(frame, values=VALUES_LIMIT)
    except Undecodable as error:
        raise Fault(PARSE_ERROR, "not one JSON document") from error
    messages = document if isinstance(document, list) else [document]
    if not messages or not all(isinstance(message, dict) for message in messages):
        raise Fault(INVALID_REQUEST, "not a JSON-RPC message")
    if len(messages) > BATCH_LIMIT:
        raise Fault(INVALID_REQUEST, f"a batch may hold {BATCH_LIMIT} messages")
    return messages


def refuse(frame: bytes) -> list[bytes]:
    """The answers for any client without a binding: the same for every request and every fault of the token."""
    try:
        messages = messages_of(frame)
    except Fault:
        return [refusal_frame(None, NotBound())]
    asked = [message.get("id") for message in messages if "method" in message and "id" in message]
    return [refusal_frame(ident if is_request_id(ident) else None, NotBound()) for ident in asked]


@dataclass(slots=True, kw_only=True)
class McpSession:
    """The state of one MCP client; `receive` returns the effects that the caller must carry out."""

    binding: Binding
    origin: CallOrigin
    server_name: str
    server_version: str
    page_size: int
    version: str | None = None
    initialized: bool = False
    level: int = 1
    listening: RpcId = None
    calls: dict[RpcId, BoundCall] = field(default_factory=dict)

    def receive(self, frame: bytes) -> list[Effect]:
        if self.binding.state is BindingState.REVOKED:
            return [SendFrame(refused) for refused in refuse(frame)]
        try:
            messages = messages_of(frame)
        except Fault as fault:
            return [SendFrame(fault_frame(None, fault.code, fault.message))]
        if len(messages) == 1:
            return self._message(messages[0])
        return [effect for message in messages for effect in self._message(message)]

    def answer(self, call: BoundCall, outcome: CallResult | CallRefused) -> bytes | None:
        """The frame that ends a call; None if its client no longer waits."""
        if self.calls.get(call.request_id) is not call:
            return None
        del self.calls[call.request_id]
        if isinstance(outcome, CallRefused):
            return refusal_frame(call.request_id, outcome)
        result: JsonObject = {"content": outcome.content, "isError": outcome.is_error}
        structured = structured_of(outcome)
        if structured is not None:
            result["structuredContent"] = structured
        try:
            return self._result(call.request_id, result)
        except Unencodable:
            return fault_frame(call.request_id, INTERNAL_ERROR, f"the result of {call.name} is not JSON")

    def too_large(self, call: BoundCall) -> bytes:
        """The error that replaces an answer for which the client left no room."""
        return fault_frame(call.request_id, INTERNAL_ERROR, f"the result of {call.name} was dropped: you do not read")

    def progress(self, call: BoundCall, progress: float, total: float | None, message: str | None) -> bytes | None:
        if call.progress_token is None or self.calls.get(call.request_id) is not call:
            return None
        params: JsonObject = {"progressToken": call.progress_token, "progress": progress}
        if total is not None:
            params["total"] = total
        if message is not None:
            params["message"] = message
        return _notification("notifications/progress", params)

    def log(self, level: str, data: object, logger: str | None) -> bytes | None:
        if not self.initialized or _rank(level) < self.level:
            return None
        params: JsonObject = {"level": level, "data": data}
        if logger is not None:
            params["logger"] = logger
        return _notification("notifications/message", params)

    def list_changed(self) -> bytes | None:
        """The notification of a changed list; None if the client has not listed the tools or subscribed yet."""
        if self.listening is not None:
            params = {"_meta": {SUBSCRIPTION_KEY: self.listening}}
            return _notification("notifications/tools/list_changed", params)
        return _notification("notifications/tools/list_changed", {}) if self.initialized else None

    def restart(self) -> list[BoundCall]:
        """Reset the state for another client process, which knows nothing of earlier requests; return their calls."""
        abandoned = list(self.calls.values())
        self.calls.clear()
        self.version, self.initialized, self.level, self.listening = None, False, 1, None
        return abandoned

    def _message(self, message: JsonObject) -> list[Effect]:
        method, params = message.get("method"), message.get("params")
        if not isinstance(method, str):
            # A message with a result or error answers a request; this server sends none, so it is ignored.
            return [] if "result" in message or "error" in message else [_invalid("no method")]
        if "id" in message:
            return self._answered(method, message["id"], params)
        return self._notice(method, params) if isinstance(params, dict | None) else []

    def _answered(self, method: str, request_id: object, params: object) -> list[Effect]:
        if not is_request_id(request_id):
            return [_invalid("the id of a request is a string or a number")]
        if not isinstance(params, dict | None):
            return [SendFrame(fault_frame(request_id, INVALID_PARAMS, "params must be an object"))]
        try:
            return self._request(method, request_id, params or {})
        except Fault as fault:
            return [SendFrame(fault_frame(request_id, fault.code, fault.message, fault.data))]
        except CallRefused as refusal:
            return [SendFrame(refusal_frame(request_id, refusal))]

    def _request(self, method: str, request_id: RpcId, params: JsonObject) -> list[Effect]:
        if method == "tools/call":
            return self._call(request_id, params)
        answer = _REQUESTS.get(method)
        if answer is None:
            raise Fault(METHOD_NOT_FOUND, f"method not found: {method[:128]}")
        return answer(self, request_id, params)

    def _notice(self, method: str, params: JsonObject | None) -> list[Effect]:
        if method == "notifications/initialized":
            self.initialized = self.version is not None
        elif method == "notifications/cancelled":
            return self._cancelled((params or {}).get("requestId"))
        return []

    def _initialize(self, request_id: RpcId, params: JsonObject) -> list[Effect]:
        wanted = params.get("protocolVersion")
        self.version = wanted if wanted in HANDSHAKE_VERSIONS else HANDSHAKE_VERSIONS[0]
        self.initialized = False
        result = {
            "protocolVersion": self.version,
            "capabilities": _CAPABILITIES | {"logging": {}},
            "serverInfo": self._server_info(),
        }
        return [SendFrame(_result_frame(request_id, result))]

    def _discover(self, request_id: RpcId, params: JsonObject) -> list[Effect]:
        self._take_version(params)
        result = {
            "supportedVersions": [STATELESS_VERSION, *HANDSHAKE_VERSIONS],
            "capabilities": _CAPABILITIES,
            "_meta": {"io.modelcontextprotocol/serverInfo": self._server_info()},
            **_FRESH,
        }
        return [SendFrame(_result_frame(request_id, {"resultType": "complete", **result}))]

    def _ping(self, request_id: RpcId, _params: JsonObject) -> list[Effect]:
        return [SendFrame(_result_frame(request_id, {}))]

    def _set_level(self, request_id: RpcId, params: JsonObject) -> list[Effect]:
        level = params.get("level")
        if level not in LEVELS:
            raise Fault(INVALID_PARAMS, f"level must be one of {', '.join(LEVELS)}")
        self.level = LEVELS.index(level)
        return [SendFrame(_result_frame(request_id, {}))]

    def _list(self, request_id: RpcId, params: JsonObject) -> list[Effect]:
        self._take_version(params)
        start = self._start_of_page(params.get("cursor"))
        end = start + self.page_size
        tools = self.binding.tools.encoded
        tail: JsonObject = dict(_FRESH) if self.version == STATELESS_VERSION else {}
        if end < len(tools):
            tail["nextCursor"] = f"{self.binding.generation}.{end}"
        else:
            self.binding.seen_generation = self.binding.generation
        # The tools are encoded already, so the frame is written around them. The marker is found safely: quotes inside
        # JSON texts are escaped, and it is the last member.
        head, marker, rest = self._result(request_id, {**tail, "tools": []}).rpartition(b'"tools":[')
        listed: list[Effect] = [SendFrame(head + marker + b",".join(tools[start:end]) + rest)]
        if self.binding.attach():
            listed.append(Attached())
        return listed

    def _call(self, request_id: RpcId, params: JsonObject) -> list[Effect]:
        name, arguments, meta = params.get("name"), params.get("arguments"), params.get("_meta")
        if not isinstance(name, str):
            raise Fault(INVALID_PARAMS, "name must be a string")
        if arguments is None:
            arguments = {}
        if not isinstance(arguments, dict):
            raise Fault(INVALID_PARAMS, "arguments must be an object")
        if request_id in self.calls:
            raise Fault(INVALID_REQUEST, "a call with this id is still running")
        self._take_version(params)
        meta = meta if isinstance(meta, dict) else {}
        if self.binding.contradicts(meta.get("threadId", meta.get("sessionId"))):
            raise NotBound
        call = self.binding.begin(name, arguments, str(request_id), self.origin)
        call.request_id = request_id
        token = meta.get("progressToken")
        call.progress_token = token if is_request_id(token) else None
        self.calls[request_id] = call
        return [BeginCall(call)]

    def _listen(self, request_id: RpcId, params: JsonObject) -> list[Effect]:
        self._take_version(params)
        wanted = params.get("notifications")
        granted = {"toolsListChanged": True} if isinstance(wanted, dict) and wanted.get("toolsListChanged") else {}
        if granted:
            self.listening = request_id
        acknowledged = {"_meta": {SUBSCRIPTION_KEY: request_id}, "notifications": granted}
        return [SendFrame(_notification("notifications/subscriptions/acknowledged", acknowledged))]

    def _cancelled(self, request_id: object) -> list[Effect]:
        if not is_request_id(request_id):
            return []
        if request_id == self.listening:
            self.listening = None
        call = self.calls.pop(request_id, None)
        if call is None:
            return []
        self.binding.finish(call)
        return [End(call)]

    def _take_version(self, params: JsonObject) -> None:
        """Take the protocol version of a request; in the stateless revision every request names it."""
        meta = params.get("_meta")
        named = meta.get(VERSION_KEY) if isinstance(meta, dict) else None
        if named is None:
            return
        if named != STATELESS_VERSION and named not in HANDSHAKE_VERSIONS:
            supported = [STATELESS_VERSION, *HANDSHAKE_VERSIONS]
            raise Fault(
                UNSUPPORTED_VERSION, "unsupported protocol version", {"supported": supported, "requested": named}
            )
        if named == STATELESS_VERSION:
            self.version = named

    def _start_of_page(self, cursor: object) -> int:
        if cursor is None:
            return 0
        generation, dot, offset = cursor.partition(".") if isinstance(cursor, str) else ("", "", "")
        known = dot and generation == str(self.binding.generation) and offset.isascii() and offset.isdigit()
        if not known or len(offset) > 9 or int(offset) >= len(self.binding.tools.encoded):
            raise Fault(INVALID_PARAMS, "unknown cursor: the tools changed since; list them from the start")
        return int(offset)

    def _server_info(self) -> JsonObject:
        return {"name": self.server_name, "version": self.server_version}

    def _result(self, request_id: RpcId, result: JsonObject) -> bytes:
        if self.version == STATELESS_VERSION:
            result = {"resultType": "complete", **result}
        return _result_frame(request_id, result)


_CAPABILITIES: Final[JsonObject] = {"tools": {"listChanged": True}}
# Tool lists belong to one session and may change at any turn: never cached, never shared.
_FRESH: Final[JsonObject] = {"ttlMs": 0, "cacheScope": "private"}

_REQUESTS: Final[dict[str, Callable[[McpSession, RpcId, JsonObject], list[Effect]]]] = {
    "initialize": McpSession._initialize,
    "server/discover": McpSession._discover,
    "subscriptions/listen": McpSession._listen,
    "ping": McpSession._ping,
    "logging/setLevel": McpSession._set_level,
    "tools/list": McpSession._list,
}


def _result_frame(request_id: RpcId, result: JsonObject) -> bytes:
    return encode_line({"jsonrpc": "2.0", "id": request_id, "result": result})


def _notification(method: str, params: JsonObject) -> bytes:
    return encode_line({"jsonrpc": "2.0", "method": method, "params": params})


def _invalid(message: str) -> SendFrame:
    return SendFrame(fault_frame(None, INVALID_REQUEST, message))


def _rank(level: str) -> int:
    return LEVELS.index(level) if level in LEVELS else 0
