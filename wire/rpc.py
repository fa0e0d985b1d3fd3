"""A JSON-RPC 2.0 peer over lines, sans-io: bytes in, messages out; messages in, bytes out.

Rules:
- Messages come out in the order of the wire, so a reply is delivered after every notification that preceded it.
- A caller hands in a `token` with each call and gets it back with the reply; what a token is, is the caller's affair
  (a future, a callback). `close(reason)` gives back the tokens of all calls that will never be answered, once.
- The pending table is the only ledger, and it holds exactly the calls in flight: `forget` removes one at once, and its
  late reply is counted and dropped. Nothing grows with traffic.
- What is not a message (bad UTF-8, not JSON, not an object, no method and no id) is `Junk`: counted, sampled, never
  fatal. Batch arrays are taken apart; an empty one is junk.
- `versioned=False` leaves out the `jsonrpc` member, for peers that speak the dialect without it.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Generic, TypeAlias, TypeVar

from ostler.wire.json import JsonObject, Undecodable, decode, encode_line
from ostler.wire.lines import DEFAULT_LIMIT, LineSplitter, LineTooLong

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603

SAMPLE = 200

Token = TypeVar("Token")
RpcId: TypeAlias = int | str | float | None


@dataclass(slots=True)
class RpcFault:
    """The error member of a reply: theirs, as they said it."""

    code: int
    message: str
    data: Any = None

    def __str__(self) -> str:
        return f"{self.message} ({self.code})"


@dataclass(slots=True)
class Request:
    """The other side asks and waits for `reply` or `reply_fault` with this id."""

    id: RpcId
    method: str
    params: JsonObject


@dataclass(slots=True)
class Notification:
    """The other side tells."""

    method: str
    params: JsonObject


@dataclass(slots=True)
class Reply(Generic[Token]):
    """One of our calls is answered: `fault` is None for success."""

    token: Token
    result: Any
    fault: RpcFault | None


@dataclass(slots=True)
class Junk:
    """Not a message. `answer` is the frame to write back where the protocol asks for one."""

    kind: str
    sample: bytes
    answer: bytes | None = None


Incoming: TypeAlias = Request | Notification | Reply[Token] | Junk


class PeerClosed(ConnectionError):
    """A call was made on a peer that is closed; carries why it was."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"the peer is closed: {reason}")
        self.reason = reason


class Peer(Generic[Token]):
    """Our end of one connection."""

    __slots__ = ("_closed", "_head", "_next_id", "_pending", "_splitter", "junk")

    def __init__(self, *, limit: int = DEFAULT_LIMIT, versioned: bool = True) -> None:
        self._splitter = LineSplitter(limit)
        self._pending: dict[int, Token] = {}
        self._next_id = 1
        self._head: JsonObject = {"jsonrpc": "2.0"} if versioned else {}
        self._closed: str | None = None
        self.junk: Counter[str] = Counter()

    @property
    def pending(self) -> int:
        """How many calls wait for their reply."""
        return len(self._pending)

    def call(self, method: str, params: object, token: Token) -> tuple[int, bytes]:
        """Register a call; write the bytes. The id serves `forget`."""
        if self._closed is not None:
            raise PeerClosed(self._closed)
        call_id = self._next_id
        frame = encode_line({**self._head, "id": call_id, "method": method, "params": params})
        self._next_id += 1
        self._pending[call_id] = token
        return call_id, frame

    def notify(self, method: str, params: object) -> bytes:
        """The bytes of a notification."""
        return encode_line({**self._head, "method": method, "params": params})

    def reply(self, request_id: RpcId, result: object) -> bytes:
        """The bytes that answer a request."""
        return encode_line({**self._head, "id": request_id, "result": result})

    def reply_fault(self, request_id: RpcId, fault: RpcFault) -> bytes:
        """The bytes that answer a request with an error."""
        error: JsonObject = {"code": fault.code, "message": fault.message}
        if fault.data is not None:
            error["data"] = fault.data
        return encode_line({**self._head, "id": request_id, "error": error})

    def forget(self, call_id: int) -> bool:
        """Nobody waits for this reply any more. True when it was still pending."""
        return self._pending.pop(call_id, None) is not None

    def close(self, reason: str) -> list[Token]:
        """End the peer; the tokens of every pending call come back exactly once."""
        if self._closed is None:
            self._closed = reason
        orphans = list(self._pending.values())
        self._pending.clear()
        return orphans

    def receive(self, chunk: bytes) -> Iterator[Incoming[Token]]:
        """The messages that these bytes complete, in order. Consume it before the next `receive`."""
        for line in self._splitter.feed(chunk):
            if isinstance(line, LineTooLong):
                yield self._junk("line_too_long", str(line).encode())
                continue
            try:
                document = decode(line)
            except Undecodable as error:
                yield self._junk(error.kind, line)
                continue
            if type(document) is dict:
                yield self._sort(document, line)
            elif type(document) is list and document:
                for part in document:
                    yield self._sort(part, line) if type(part) is dict else self._junk("not_an_object", line)
            else:
                yield self._junk("not_an_object", line)

    def _sort(self, document: JsonObject, line: bytes) -> Incoming[Token]:
        method = document.get("method")
        if type(method) is str:
            params = document.get("params")
            if params is None:
                params = {}
            elif type(params) is not dict:
                return self._refuse_params(document, line)
            if "id" in document:
                return Request(document["id"], method, params)
            return Notification(method, params)
        return self._match(document, line)

    def _match(self, document: JsonObject, line: bytes) -> Incoming[Token]:
        call_id = document.get("id")
        # `True == 1` for a dict: an id that is no int must not find a call.
        if type(call_id) is not int or call_id not in self._pending:
            return self._junk("unmatched_reply" if "id" in document else "no_method", line)
        token = self._pending.pop(call_id)
        if "error" in document and document["error"] is not None:
            return Reply(token, None, _fault_of(document["error"]))
        return Reply(token, document.get("result"), None)

    def _refuse_params(self, document: JsonObject, line: bytes) -> Junk:
        junk = self._junk("params_not_an_object", line)
        if "id" in document:
            junk.answer = self.reply_fault(document["id"], RpcFault(INVALID_PARAMS, "params must be an object"))
        return junk

    def _junk(self, kind: str, line: bytes) -> Junk:
        self.junk[kind] += 1
        return Junk(kind, line[:SAMPLE])


def _fault_of(error: Any) -> RpcFault:
    """Read an error member however badly formed it is: a fault with a wrong shape is still a fault."""
    if type(error) is not dict:
        return RpcFault(INTERNAL_ERROR, str(error)[:SAMPLE])
    code = error.get("code")
    message = error.get("message")
    return RpcFault(
        code if type(code) is int else INTERNAL_ERROR,
        message if isinstance(message, str) else "the peer gave no message",
        error.get("data"),
    )
