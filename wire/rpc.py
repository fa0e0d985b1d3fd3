"""A JSON-RPC 2.0 peer over lines, sans-io: bytes in, messages out; messages in, bytes out.

Rules:
- Messages come out in the order of the wire, so a reply is delivered after every notification that preceded it.
- A caller passes a `token` with each call and gets it back with the reply; the token's meaning is the caller's (a
  future, a callback). `close(reason)` returns the tokens of all calls that will never be answered, once.
- The pending table is the only ledger, and it contains exactly the calls in flight: `forget` removes one at once, and
  its late reply is counted and dropped. Nothing grows with traffic.
- What is not a message is `Junk`: counted under a `JunkKind`, sampled, never fatal. No bytes from outside make
  `receive` raise. Batch arrays are taken apart; an empty, nested or overlong one is junk.
- Only our own id, as the integer it was, finds a call: `true`, `1.0` and `"1"` find nothing. A badly formed request of
  the other side never passes for a reply, although both sides count their ids from the same number.
- A message that cannot be read (too long, too deep, a bad byte) costs only itself. When its first bytes name the call
  that it answers, that call gets a fault at once; when they show a request, the junk carries the fault to write back.
  Nothing in a line that is no JSON at all is believed: it may be a log that quotes a message.
- `versioned=False` leaves out the `jsonrpc` member, for peers that speak the dialect without it. Params of None are
  left out, as the standard asks.
"""

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Generic, Literal, TypeAlias, TypeVar

from ostler.wire.json import VALUES_LIMIT, DecodeFault, JsonObject, Undecodable, decode, encode_line
from ostler.wire.lines import DEFAULT_LIMIT, HEAD, LineSplitter, LineTooLong

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603

SAMPLE = 200 + 4_096
"""Bytes kept of a line that is no message: what is shown, and the length of the longest secret, so that the caller can
redact secrets before it cuts.
"""
BATCH_LIMIT = 1024

Token = TypeVar("Token")
RpcId: TypeAlias = int | str | float | None
RPC_ID_TYPES = (int, str, float, type(None))

JunkKind: TypeAlias = (
    DecodeFault
    | Literal[
        "bad_id",
        "bad_method",
        "batch_too_long",
        "late_reply",
        "line_too_long",
        "nameless_fault",
        "no_method",
        "not_an_object",
        "params_not_an_object",
        "unmatched_reply",
    ]
)

OVER_LIMIT = frozenset({"line_too_long", "too_deep", "too_many_values"})
"""Kinds of junk that may have been an important message: they are always reported, with a reason."""

# The members that precede the bulk of a message, if only plain ones precede it.
_HEADER = re.compile(
    rb'\s*\{\s*((?:"(?:jsonrpc|id|method)"\s*:\s*(?:"[^"\\]*"|-?\d+)\s*,\s*)+)"(?:params|result|error)"\s*:'
)


@dataclass(slots=True)
class RpcFault:
    """The error member of a reply, as the other side sent it."""

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
    """The other side sends a notification and expects no reply."""

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
    """Not a message. `answer` is the frame to write back where the protocol requires one."""

    kind: JunkKind
    sample: bytes
    answer: bytes | None = None
    reason: str = ""
    """Why a message that we might have understood was dropped unread; empty for what is no message."""


Incoming: TypeAlias = Request | Notification | Reply[Token] | Junk


class PeerClosed(ConnectionError):
    """A call was made on a closed peer; carries the reason of the close."""

    def __init__(self, reason: str) -> None:
        super().__init__(f"the peer is closed: {reason}")
        self.reason = reason


class FrameTooLong(ValueError):
    """We were asked to write more than this peer takes; nothing was written and nothing was registered."""

    def __init__(self, size: int, limit: int) -> None:
        super().__init__(f"a frame of {size} bytes is over the limit of {limit} bytes and was not written")
        self.size = size
        self.limit = limit


class Peer(Generic[Token]):
    """Our end of one connection. `limit` bounds a line read, `write_limit` (if any) a line written."""

    __slots__ = ("_closed", "_head", "_next_id", "_pending", "_splitter", "_write_limit", "junk")

    def __init__(self, *, limit: int = DEFAULT_LIMIT, write_limit: int | None = None, versioned: bool = True) -> None:
        self._write_limit = write_limit
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
        """Register a call; return its id, for `forget`, and the bytes to write. Raises `PeerClosed`, `FrameTooLong`."""
        if self._closed is not None:
            raise PeerClosed(self._closed)
        call_id = self._next_id
        frame = self._frame(_with_params({**self._head, "id": call_id, "method": method}, params))
        self._next_id += 1
        self._pending[call_id] = token
        return call_id, frame

    def notify(self, method: str, params: object) -> bytes:
        """The bytes of a notification."""
        return self._frame(_with_params({**self._head, "method": method}, params))

    def reply(self, request_id: RpcId, result: object) -> bytes:
        """The bytes that answer a request."""
        return self._frame({**self._head, "id": request_id, "result": result})

    def reply_fault(self, request_id: RpcId, fault: RpcFault) -> bytes:
        """The bytes that answer a request with an error."""
        return self._frame(self._fault_document(request_id, fault))

    def forget(self, call_id: int) -> bool:
        """Drop a pending call whose caller has given up. True when it was still pending."""
        return self._pending.pop(call_id, None) is not None

    def close(self, reason: str) -> list[Token]:
        """End the peer; return the tokens of every pending call, exactly once."""
        if self._closed is None:
            self._closed = reason
        orphans = list(self._pending.values())
        self._pending.clear()
        return orphans

    def receive(self, chunk: bytes) -> Iterator[Incoming[Token]]:
        """The messages that these bytes complete, in order. Consume it before the next `receive`.

        The bytes are taken at once, but each message is read only when it is asked for: a `forget` or `close` made
        while one message is handled applies to the next.
        """
        return self._read(self._splitter.feed(chunk))

    def _read(self, lines: list[bytes | LineTooLong]) -> Iterator[Incoming[Token]]:
        for line in lines:
            if isinstance(line, LineTooLong):
                yield from self._mourn("line_too_long", line.head, str(line))
                continue
            try:
                document = decode(line, values=VALUES_LIMIT)
            except Undecodable as error:
                yield from self._mourn(error.kind, line[:HEAD], f"the message could not be read: {error.kind}")
                continue
            if type(document) is dict:
                yield self._sort(document, line)
            else:
                yield from self._take_apart(document, line)

    def _take_apart(self, document: Any, line: bytes) -> Iterator[Incoming[Token]]:
        if type(document) is not list or not document:
            yield self._junk("not_an_object", line)
        elif len(document) > BATCH_LIMIT:
            yield self._junk("batch_too_long", line)
        else:
            for part in document:
                yield self._sort(part, line) if type(part) is dict else self._junk("not_an_object", line)

    def _mourn(self, kind: JunkKind, head: bytes, reason: str) -> Iterator[Incoming[Token]]:
        header = {} if kind == "not_json" else _header_of(head)
        call_id = header.get("id")
        fault = RpcFault(INVALID_REQUEST, reason)
        junk = self._junk(kind, head)
        junk.reason = reason if kind in OVER_LIMIT else ""
        if "method" in header and "id" in header:
            junk.answer = encode_line(self._fault_document(call_id, fault))
        yield junk
        if "method" not in header and call_id in self._pending:
            yield Reply(self._pending.pop(call_id), None, fault)

    def _sort(self, document: JsonObject, line: bytes) -> Incoming[Token]:
        method = document.get("method")
        if method is None:
            return self._match(document, line)
        if type(method) is not str:
            return self._refuse("bad_method", INVALID_REQUEST, "method must be a string", document, line)
        params = document.get("params")
        if params is None:
            params = {}
        elif type(params) is not dict:
            return self._refuse("params_not_an_object", INVALID_PARAMS, "params must be an object", document, line)
        if "id" not in document:
            return Notification(method, params)
        if type(document["id"]) not in RPC_ID_TYPES:
            return self._refuse("bad_id", INVALID_REQUEST, "id must be a string, a number or null", document, line)
        return Request(document["id"], method, params)

    def _match(self, document: JsonObject, line: bytes) -> Incoming[Token]:
        call_id = document.get("id")
        error = document.get("error")
        # `True == 1` for a dict: an id that is no int must not find a call.
        if type(call_id) is not int or call_id not in self._pending:
            return self._junk(self._kind_of_stray(document), line)
        token = self._pending.pop(call_id)
        if error is not None:
            return Reply(token, None, _fault_of(error))
        # No result at all is success too: JavaScript writes it for a handler that returned nothing.
        return Reply(token, document.get("result"), None)

    def _kind_of_stray(self, document: JsonObject) -> JunkKind:
        call_id = document.get("id")
        if type(call_id) is int and 0 < call_id < self._next_id:
            return "late_reply"
        if call_id is None and document.get("error") is not None:
            return "nameless_fault"
        return "unmatched_reply" if "id" in document else "no_method"

    def _refuse(self, kind: JunkKind, code: int, reason: str, document: JsonObject, line: bytes) -> Junk:
        junk = self._junk(kind, line)
        if "id" in document:
            request_id = document["id"]
            echoed = request_id if type(request_id) in RPC_ID_TYPES else None
            junk.answer = encode_line(self._fault_document(echoed, RpcFault(code, reason)))
        return junk

    def _fault_document(self, request_id: RpcId, fault: RpcFault) -> JsonObject:
        error: JsonObject = {"code": fault.code, "message": fault.message}
        if fault.data is not None:
            error["data"] = fault.data
        return {**self._head, "id": request_id, "error": error}

    def _junk(self, kind: JunkKind, line: bytes) -> Junk:
        self.junk[kind] += 1
        return Junk(kind, line[:SAMPLE])

    def _frame(self, document: JsonObject) -> bytes:
        frame = encode_line(document)
        size = len(frame) - 1
        if self._write_limit is not None and size > self._write_limit:
            raise FrameTooLong(size, self._write_limit)
        return frame


def _with_params(head: JsonObject, params: object) -> JsonObject:
    if params is not None:
        head["params"] = params
    return head


def _header_of(head: bytes) -> JsonObject:
    """The plain members at the start of a dropped message; empty when they cannot be read."""
    found = _HEADER.match(head)
    if found is None:
        return {}
    try:
        header = decode(b"{" + found[1].rstrip().removesuffix(b",") + b"}")
    except Undecodable:
        return {}
    return header if type(header) is dict else {}


def _fault_of(error: Any) -> RpcFault:
    """Read an error member even if it is badly formed: a fault with a wrong shape is still a fault."""
    if type(error) is str:
        return RpcFault(INTERNAL_ERROR, error)
    if type(error) is not dict:
        return RpcFault(INTERNAL_ERROR, "the peer's error is not an object", error)
    code = error.get("code")
    message = error.get("message")
    return RpcFault(
        code if type(code) is int else INTERNAL_ERROR,
        message if isinstance(message, str) else "the peer gave no message",
        error.get("data"),
    )
