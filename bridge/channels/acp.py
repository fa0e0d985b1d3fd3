"""MCP over ACP: an agent that advertises `mcpCapabilities.acp` reaches the tools through the pipe it already has.

Not part of ACP yet: a draft (RFD "MCP-over-ACP"), marked unstable in the schema of ACP 1.19. This module implements the
shape of that schema: a server is declared in `session/new` as `{"type": "acp", "name", "serverId"}`; the agent opens
connections with `mcp/connect`, sends `mcp/message` (method and params of the inner message; its id is the outer one's),
and closes with `mcp/disconnect`.

Rules: one `AcpChannel` belongs to one agent process. A server id is valid only on the channel that declared it, so an
id that another process learned is useless there, and each opens a bounded number of connections. Sans-io: requests come
with a callback for the answer, notifications leave by `tell`; the channel has no process, socket or task.
"""

import itertools
from collections.abc import Callable
from typing import Final, TypeAlias

from ostler.bridge.conversation import McpClient
from ostler.bridge.doors import ChannelListener
from ostler.bridge.errors import NotBound
from ostler.bridge.mcp import REFUSAL_CODES, is_request_id
from ostler.bridge.session_binding import SessionBinding
from ostler.bridge.tokens import TokenSource, secret_token
from ostler.wire.json import JsonObject, decode, encode_line
from ostler.wire.rpc import INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND, RpcFault

CONNECTION_LIMIT: Final = 16
ASKED_LIMIT: Final = 1024
REQUEST_CANCELLED: Final = -32800  # an error code of ACP

AcpOutcome: TypeAlias = JsonObject | RpcFault
AcpAnswer: TypeAlias = Callable[[AcpOutcome], None]
"""The callback for the outcome of one request; called exactly once."""


class AcpConnection:
    """One `mcp/connect`: a frame sink that knows which answer belongs to which outer request."""

    def __init__(self, name: str, binding: SessionBinding, tell: ChannelListener) -> None:
        self._name = name
        self._tell = tell
        self._asked: dict[int, tuple[object, AcpAnswer]] = {}
        self._inner: dict[object, int] = {}
        self._numbers = itertools.count(1)
        self.conversation: McpClient = binding.conversation()
        self.conversation.connect(self, resumed=True)

    @property
    def waiting(self) -> int:
        """Always 0: the transport bounds what is passed to it."""
        return 0

    def request(self, outer: object, method: str, params: object, answer: AcpAnswer) -> None:
        if len(self._asked) >= ASKED_LIMIT:
            answer(RpcFault(INVALID_REQUEST, f"{ASKED_LIMIT} requests are waiting for an answer"))
            return
        inner = next(self._numbers)
        self._asked[inner] = (outer, answer)
        self._inner[outer] = inner
        self._receive({"jsonrpc": "2.0", "id": inner, "method": method, "params": params or {}})

    def notify(self, method: str, params: object) -> None:
        if method == "notifications/cancelled" and isinstance(params, dict):
            self._cancel(params)
        else:
            self._receive({"jsonrpc": "2.0", "method": method, "params": params or {}})

    def send(self, frame: bytes) -> None:
        message: JsonObject = decode(frame)
        if "method" in message:
            inner = {"method": message["method"], "params": message["params"]}
            self._tell("mcp/message", {"connectionId": self._name, **inner})
        elif (error := message.get("error")) is None:
            self._settle(message["id"], message["result"])
        else:
            self._settle(message["id"], RpcFault(error["code"], error["message"], error.get("data")))

    def _cancel(self, params: JsonObject) -> None:
        """Cancel the request whose outer id `params` names, and answer it: MCP sends no answer to a cancelled request,
        but the outer protocol requires one.
        """
        named = params.get("requestId")
        inner = self._inner.get(named) if is_request_id(named) else None
        if inner is not None:
            self._receive({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": inner}})
            self._settle(inner, RpcFault(REQUEST_CANCELLED, "the call was cancelled"))

    def _settle(self, inner: int, outcome: AcpOutcome) -> None:
        outer, answer = self._asked.pop(inner, (None, None))
        if answer is not None:
            self._inner.pop(outer, None)
            answer(outcome)

    def close(self) -> None:
        self.conversation.discard()
        for inner in tuple(self._asked):
            self._settle(inner, _not_bound())

    def _receive(self, message: JsonObject) -> None:
        self.conversation.receive(encode_line(message))


class AcpChannel:
    """The MCP connections of one agent process, and the server ids that are declared to it."""

    def __init__(self, tell: ChannelListener, *, name: str = "ostler", ids: TokenSource = secret_token) -> None:
        self._tell = tell
        self._name = name
        self._ids = ids
        self._declared: dict[str, SessionBinding] = {}
        self._connections: dict[str, tuple[SessionBinding, AcpConnection]] = {}

    def declare(self, binding: SessionBinding) -> JsonObject:
        """The entry for `mcpServers` of `session/new`. Raises `BindingRevoked`."""
        server = self._ids()
        binding.on_revoked(lambda: self._forget(server, binding))
        binding.on_definitions(lambda: self._changed(binding))
        self._declared[server] = binding
        return {"type": "acp", "name": self._name, "serverId": server}

    def request(self, outer: object, method: str, params: JsonObject, answer: AcpAnswer) -> None:
        """A request of the agent whose method begins with `mcp/`; `outer` is its JSON-RPC id."""
        match method:
            case "mcp/connect":
                answer(self._connect(params))
            case "mcp/message":
                self._message(outer, params, answer)
            case "mcp/disconnect":
                answer(self._disconnect(params))
            case _:
                answer(RpcFault(METHOD_NOT_FOUND, f"method not found: {method[:128]}"))

    def notice(self, method: str, params: JsonObject) -> None:
        connection = self._connection(params)
        inner = params.get("method")
        if method == "mcp/message" and connection is not None and isinstance(inner, str):
            connection.notify(inner, params.get("params"))

    def close(self) -> None:
        """Close all connections: the agent process is gone."""
        for name in tuple(self._connections):
            self._disconnect({"connectionId": name})
        self._declared.clear()

    def _connect(self, params: JsonObject) -> AcpOutcome:
        binding = self._declared.get(str(params.get("serverId")))
        if binding is None or self._open(binding) >= CONNECTION_LIMIT:
            return _not_bound()
        name = self._ids()
        self._connections[name] = (binding, AcpConnection(name, binding, self._tell))
        return {"connectionId": name}

    def _open(self, binding: SessionBinding) -> int:
        """How many connections this binding has. Counted per session: one must not use up another's limit."""
        return sum(owner is binding for owner, _ in self._connections.values())

    def _message(self, outer: object, params: JsonObject, answer: AcpAnswer) -> None:
        connection, inner = self._connection(params), params.get("method")
        if connection is None:
            answer(_not_bound())
        elif not isinstance(inner, str):
            answer(RpcFault(INVALID_PARAMS, "method must be a string"))
        else:
            connection.request(outer, inner, params.get("params"), answer)

    def _disconnect(self, params: JsonObject) -> AcpOutcome:
        _, connection = self._connections.pop(str(params.get("connectionId")), (None, None))
        if connection is None:
            return _not_bound()
        connection.close()
        return {}

    def _connection(self, params: JsonObject) -> AcpConnection | None:
        _, connection = self._connections.get(str(params.get("connectionId")), (None, None))
        return connection

    def _changed(self, binding: SessionBinding) -> None:
        for owner, connection in tuple(self._connections.values()):
            if owner is binding:
                connection.conversation.tools_changed()

    def _forget(self, server: str, binding: SessionBinding) -> None:
        self._declared.pop(server, None)
        for name, (owner, _) in tuple(self._connections.items()):
            if owner is binding:
                self._disconnect({"connectionId": name})


def _not_bound() -> RpcFault:
    """One answer for unknown, closed and revoked ids."""
    return RpcFault(REFUSAL_CODES[NotBound], str(NotBound()))
