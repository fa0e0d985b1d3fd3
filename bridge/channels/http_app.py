"""MCP over Streamable HTTP as an ASGI application, in front of the same bindings as the socket.

Rules: Host and Origin are checked first, then the token, then everything else. A client without a valid token learns
nothing, not even whether a path or a session exists. An answer that is ready immediately is one JSON document; a call
that reports progress or takes longer becomes an event stream, so that headers are sent and the client does not time
out. In the revisions with a handshake a lost connection is not a cancellation; in the stateless one it is the only way
to cancel.
"""

import asyncio
import secrets
from collections.abc import Callable, Coroutine, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from ostler.bridge.channels.http_request import (
    EVENTS,
    JSON,
    SESSION,
    AsgiSend,
    HttpMessage,
    HttpRefusal,
    HttpRequest,
    Receive,
    Scope,
    not_bound,
    refusal,
)
from ostler.bridge.channels.http_session import HttpClientSlot, HttpSession
from ostler.bridge.channels.http_stateless import check, is_stateless, status_of
from ostler.bridge.channels.http_stream import HttpExchange, Stream
from ostler.bridge.mcp import Fault, fault_frame, is_request_id, messages_of
from ostler.bridge.session_binding import SessionBinding
from ostler.bridge.tokens import TokenSource, digest, secret_token
from ostler.wire.json import JsonObject
from ostler.wire.rpc import RpcId

METHODS = "GET, POST, DELETE"

Lost: TypeAlias = Callable[[], None]
HttpStatus: TypeAlias = Callable[[bytes], int]
HttpWork: TypeAlias = Coroutine[object, object, None]


@dataclass(frozen=True, slots=True, kw_only=True)
class HttpSettings:
    """The settings of the HTTP channel; times in seconds, `body_limit` in bytes."""

    enabled: bool = False
    host: str = "127.0.0.1"
    port: int = 0
    path: str = "/mcp"
    body_limit: int = 32 * 1024 * 1024
    connection_limit: int = 512
    """For all bindings together; the oldest connection without a running request is closed for a new one."""
    head_deadline: float = 10.0
    body_deadline: float = 60.0
    sessions_per_binding: int = 16
    """Also the limit of the notification streams open in one session."""
    stream_after: float = 1.0
    """Seconds after which a call without an answer gets its headers and a stream."""
    heartbeat: float = 15.0


@dataclass(frozen=True, slots=True)
class Posted:
    """A request body: its bytes for `McpSession`, and its messages, which decide how it is handled."""

    frame: bytes
    messages: list[JsonObject]

    @property
    def first(self) -> JsonObject:
        return self.messages[0]

    @property
    def ident(self) -> RpcId:
        """The id that an error about the whole body should carry."""
        ident = self.first.get("id")
        return ident if self.alone and is_request_id(ident) else None

    @property
    def alone(self) -> bool:
        return len(self.messages) == 1


class HttpApp:
    """The ASGI application. A binding gets a token with `admit`; the token ends with the binding."""

    def __init__(self, settings: HttpSettings, *, tokens: TokenSource = secret_token) -> None:
        self._settings = settings
        self._tokens = tokens
        self._key = secrets.token_bytes(32)
        self._places: dict[bytes, HttpClientSlot] = {}
        self.refused = 0

    @property
    def admitted(self) -> int:
        """The number of valid tokens."""
        return len(self._places)

    def admit(self, binding: SessionBinding) -> str:
        """A token for this channel only: it opens nothing on the socket, nor the reverse. Raises `BindingRevoked`."""
        token = self._tokens()
        key = self._digest(token)
        place = HttpClientSlot(binding, self._settings.sessions_per_binding)

        def forget() -> None:
            del self._places[key]
            place.end()

        binding.on_revoked(forget)
        self._places[key] = place
        return token

    def end(self) -> None:
        """Close every stream; the tokens stay valid as long as their bindings."""
        for place in self._places.values():
            place.end()

    async def __call__(self, scope: Scope, receive: Receive, send: AsgiSend) -> None:
        if scope["type"] != "http":
            raise NotImplementedError(f"only http is served, not {scope['type']}")
        try:
            await self._serve(HttpRequest.of(scope), receive, send)
        except HttpRefusal as refused:
            await _respond(send, refused.status, refused.body, refused.headers)

    async def _serve(self, request: HttpRequest, receive: Receive, send: AsgiSend) -> None:
        request.require_this_machine()
        place = self._place(request)
        if request.path != self._settings.path:
            raise refusal(404, "nothing here")
        match request.method:
            case "POST":
                await self._post(request, place, receive, send)
            case "GET":
                await self._get(request, place, receive, send)
            case "DELETE":
                self._delete(request, place)
                await _respond(send, 204)
            case _:
                raise HttpRefusal(405, b"", {"allow": METHODS})

    def _place(self, request: HttpRequest) -> HttpClientSlot:
        place = self._places.get(self._digest(request.bearer))
        if place is None:
            self.refused += 1
            raise not_bound()
        return place

    def _digest(self, token: str) -> bytes:
        return digest(self._key, token.encode())

    async def _post(self, request: HttpRequest, place: HttpClientSlot, receive: Receive, send: AsgiSend) -> None:
        request.require_json()
        try:
            async with asyncio.timeout(self._settings.body_deadline):
                body = await self._body(receive)
        except TimeoutError as error:
            raise refusal(408, f"the body took longer than {self._settings.body_deadline:g} s") from error
        posted = _posted(body)
        request.require_known_version(posted.ident)
        if is_stateless(request, posted.first):
            await self._post_alone(request, place, posted, receive, send)
        elif any(each.get("method") == "initialize" for each in posted.messages):
            await self._handshake(place, posted, send)
        else:
            await self._post_in(_session(request, place), posted, receive, send)

    async def _post_alone(
        self, request: HttpRequest, place: HttpClientSlot, posted: Posted, receive: Receive, send: AsgiSend
    ) -> None:
        if not posted.alone:
            raise refusal(400, "one message in one request")
        check(request, posted.first)
        exchange = place.exchange(posted.frame)
        await self._finish(exchange, receive, send, status=status_of, lost=exchange.abandon)

    async def _handshake(self, place: HttpClientSlot, posted: Posted, send: AsgiSend) -> None:
        if not posted.alone:
            raise refusal(400, "initialize comes alone")
        name = secrets.token_hex(16)
        answers = place.open(name).answers(posted.frame)
        await _respond(send, 200, b"".join(answers), {"content-type": JSON, SESSION: name})

    async def _post_in(self, session: HttpSession, posted: Posted, receive: Receive, send: AsgiSend) -> None:
        if not any("method" in each and "id" in each for each in posted.messages):
            session.notify(posted.frame)
            await _respond(send, 202)
        elif posted.alone and posted.first["method"] == "logging/setLevel":
            await _respond(send, 200, b"".join(session.answers(posted.frame)), {"content-type": JSON})
        else:
            exchange = session.exchange(posted.frame)
            status = _always_ok if posted.alone else None
            await self._finish(exchange, receive, send, status=status, lost=exchange.drop)

    async def _get(self, request: HttpRequest, place: HttpClientSlot, receive: Receive, send: AsgiSend) -> None:
        request.require_known_version()
        if not request.accepts(EVENTS):
            raise refusal(406, f"accept {EVENTS}")
        stream = _session(request, place).mailbox.open()
        await self._stream(stream, receive, send, lost=stream.drop)

    def _delete(self, request: HttpRequest, place: HttpClientSlot) -> None:
        request.require_known_version()
        if request.session is None or not place.close(request.session):
            raise refusal(404, "no such session")

    async def _body(self, receive: Receive) -> bytes:
        parts: list[bytes] = []
        size = 0
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                raise refusal(400, "the body did not arrive")
            parts.append(message.get("body", b""))
            size += len(parts[-1])
            if size > self._settings.body_limit:
                raise refusal(413, f"a request may be {self._settings.body_limit} bytes")
            if not message.get("more_body", False):
                return b"".join(parts)

    async def _finish(
        self, exchange: HttpExchange, receive: Receive, send: AsgiSend, *, status: HttpStatus | None, lost: Lost
    ) -> None:
        """Answer with one document if the answer is ready, otherwise with a stream. `status` maps a single answer to
        its HTTP status; None: a batch, which is always a stream.
        """
        stream = exchange.stream
        await _watched(receive, stream.arrival(self._settings.stream_after), lost)
        if status is not None and stream.closed and len(stream) == 1:
            answer = stream.take()[0]
            await _respond(send, status(answer), answer, {"content-type": JSON})
        else:
            await self._stream(stream, receive, send, lost=lost)

    async def _stream(self, stream: Stream, receive: Receive, send: AsgiSend, *, lost: Lost) -> None:
        await send(_head(200, {"content-type": EVENTS, "cache-control": "no-cache"}))
        await _watched(receive, self._events(stream, send), lost)
        await send({"type": "http.response.body", "body": b""})

    async def _events(self, stream: Stream, send: AsgiSend) -> None:
        # A comment first: some clients treat an answer as lost until its first bytes have arrived.
        news = b": here\n\n"
        while True:
            await send({"type": "http.response.body", "body": news, "more_body": True})
            await stream.arrival(self._settings.heartbeat)
            frames = stream.take()
            if not frames and stream.closed:
                return
            news = b"".join(b"event: message\ndata: %b\n" % frame for frame in frames) or b": still here\n\n"


async def _watched(receive: Receive, work: HttpWork, lost: Lost) -> None:
    """Run `work` while a task watches for a disconnect: a raw ASGI server reports it only to a caller of `receive`."""
    async with asyncio.TaskGroup() as group:
        watch = group.create_task(_watch(receive, lost))
        try:
            await work
        finally:
            watch.cancel()


async def _watch(receive: Receive, lost: Lost) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass
    lost()


def _posted(body: bytes) -> Posted:
    try:
        return Posted(body, messages_of(body))
    except Fault as fault:
        raise HttpRefusal(400, fault_frame(None, fault.code, fault.message, fault.data)) from fault


def _always_ok(_answer: bytes) -> int:
    return 200


def _session(request: HttpRequest, place: HttpClientSlot) -> HttpSession:
    if request.session is None:
        raise refusal(400, f"the header {SESSION} is missing; call initialize first")
    session = place.session(request.session)
    if session is None:
        raise refusal(404, "no such session; call initialize again")
    return session


async def _respond(send: AsgiSend, status: int, body: bytes = b"", headers: Mapping[str, str] | None = None) -> None:
    kind = {"content-type": JSON} if body else {}
    await send(_head(status, {**kind, **(headers or {}), "content-length": str(len(body))}))
    await send({"type": "http.response.body", "body": body})


def _head(status: int, headers: Mapping[str, str]) -> HttpMessage:
    raw = [(name.encode(), value.encode()) for name, value in headers.items()]
    return {"type": "http.response.start", "status": status, "headers": raw}
