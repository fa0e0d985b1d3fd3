"""HTTP for our listeners: uvicorn's implementation, with our answers where no request can be read.

Rules:
- Every answer is the envelope, even to bytes that are not HTTP.
- A head (request line and headers) has a size limit, and so have the framing of a body and what follows it (chunk
  sizes, trailers); `AuthMiddleware` limits the body itself. Trailers are read and dropped: they never become headers.
- Nothing is written that a client could take for the answer to another request, or for more of an answer that has
  begun: the connection is closed instead. It is also closed for a client that keeps sending requests without reading
  answers, and if a head is not complete in time: no middleware has seen the request yet, so none can decide about it.
- The bytes of one read are parsed in portions, one per round of the loop: 256 KiB may contain 40,000 headers or chunks.
- All connections together have a limit (`connections.py`): an idle one is closed for a new one, and if none is idle,
  the new one is refused with 503.
"""

from asyncio import Handle, TimerHandle
from time import thread_time
from typing import Any

import orjson

from ostler.bridge.channels.uvicorn_internals import STATUS_LINE, HttpConnection, RequestResponseCycle, ServerState
from ostler.gateway.http.auth_middleware import HEADERS
from ostler.gateway.http.connections import ConnectionPhase, Connections, TooManyConnections
from ostler.gateway.http.errors import envelope
from ostler.gateway.http.fast_path import offer_fast_path
from ostler.gateway.model.api_error import ApiError
from ostler.wire.portions import LoopShare

HEAD_LIMIT = 64 * 1024
HEADERS_AT_MOST = 128
PORTION = 16 * 1024
"""Bytes that are parsed in one round of the loop."""
ROUND = 0.005
"""The most seconds of a round that count as this connection's work: others may have worked in it too."""
BEHIND = 64
"""The most requests that may wait for the one before them: uvicorn reads on after each answer, without a limit."""
NO_HTTP = "this is no HTTP request: check the request line, the headers and how the body is cut"
TOO_MANY = f"the request has more than {HEADERS_AT_MOST} headers; send fewer"
TOO_LONG = f"the request line and headers, or the trailers, are longer than {HEAD_LIMIT} bytes; send less"


class Overrun(Exception):
    """More requests wait, or more headers come, than the limit allows."""


class ListenerState(ServerState):
    """What uvicorn shares between the connections of one listener, and how many there may be."""

    def __init__(self, limit: int) -> None:
        super().__init__()
        self.open: Connections[JsonHttp] = Connections(limit)
        self.share = LoopShare()
        """Shared by all connections that send much at once, so that opening more connections gains a client nothing."""


class JsonHttp(HttpConnection):
    """One connection of a listener, with limits on what it sends and when."""

    waiting = b""
    """Bytes that were read and are not parsed yet."""
    going_on: Handle | None = None
    """Set while bytes wait: parses the next portion."""
    clock = 0.0
    """CPU seconds of the loop's thread up to the last portion."""
    heading = True
    """Whether the next bytes belong to a head. False from the end of a head to the end of its body and trailers."""
    bare = 0
    """Bytes since the last body data, end of a head, or end of a request. Whole pieces only: a piece that contains one
    of these is not counted, because the parser does not say where in it they are. A piece has at most `PORTION`
    bytes."""
    crowded = False
    """Whether the head that is being read has too many headers."""
    late: TimerHandle | None = None
    """Closes the connection. Runs from its start, or from the first byte after an answer, to the end of a head."""
    answered: RequestResponseCycle | None = None
    """The request that is being answered, or was answered last. Those that wait behind it begin only if the client
    stays."""

    def connection_made(self, transport: Any) -> None:  # what uvicorn calls the type differs between its releases
        """Count the new connection; close another one for it or refuse it."""
        super().connection_made(transport)
        state = self.server_state
        self.share = state.share if isinstance(state, ListenerState) else LoopShare()
        if self._counted is not None:
            try:
                victim = self._counted.admit(self, self.client[0] if self.client else "")
            except TooManyConnections as error:
                self.transport.write(refusal(error))
                self.transport.close()
                return
            if victim is not None:
                victim.evict()
        self._expect_head()

    @property
    def _counted(self) -> "Connections[JsonHttp] | None":
        """The counter of its listener; None: connections are not limited."""
        return self.server_state.open if isinstance(self.server_state, ListenerState) else None

    def _turn(self, phase: ConnectionPhase) -> None:
        if self._counted is not None:
            self._counted.turn(self, phase)

    def evict(self) -> None:
        """Close this connection for a new one: nothing is being answered here, or the rest of its request does not
        come."""
        if self.transport.get_write_buffer_size():
            self.transport.abort()
        else:
            self.transport.close()

    def data_received(self, data: bytes) -> None:
        """Parse a small read at once; queue the rest of a large one, and stop reading until it is parsed."""
        if self.going_on is None and len(data) <= PORTION:
            self._take(data)
            return
        self.waiting += data
        self.transport.pause_reading()
        if self.going_on is None:
            self.clock = thread_time()
            self._go_on()

    def _go_on(self) -> None:
        """Parse the next portion; the rest follows after other connections had their turn."""
        self.going_on = None
        portion, self.waiting = self.waiting[:PORTION], self.waiting[PORTION:]
        if self.waiting:
            # Middleware and routes work on a portion in other callbacks, so the work of the whole loop is counted.
            used, self.clock = thread_time() - self.clock, thread_time()
            rest = self.share.wait_after(min(used, ROUND), self.loop.time())
            self.going_on = self.loop.call_later(rest, self._go_on) if rest else self.loop.call_soon(self._go_on)
        self._take(portion)
        if self.transport.is_closing():
            self._drop()
        elif self.going_on is None and not self.flow.read_paused:
            self.transport.resume_reading()

    def _drop(self) -> None:
        self.waiting = b""
        if self.going_on is not None:
            self.going_on.cancel()
            self.going_on = None

    def _take(self, data: bytes) -> None:
        """Parse more of a request, and count it against the limit of a head."""
        self.bare += len(data)
        super().data_received(data)
        if self.answered is None or self.answered.response_complete:
            self._expect_head()  # uvicorn has stopped its timer, and these bytes may not begin a request
        if self.bare > HEAD_LIMIT:
            self.refuse(ApiError(431, TOO_LONG, code="headers_too_large"))

    def connection_lost(self, exc: Exception | None) -> None:
        """The client disconnected: uvicorn tells only the last request that it read, and the one being answered may be
        another.

        uvicorn also leaves its timer for the next request running if the client did not close the connection properly.
        """
        super().connection_lost(exc)
        self._drop()
        if self._counted is not None:
            self._counted.leave(self)
        self.stop_keep_alive_timer()
        self._have_head()
        cycle, self.answered = self.answered, None
        if cycle is not None and not cycle.response_complete:
            cycle.disconnected = True
            cycle.message_event.set()

    def on_message_begin(self) -> None:
        """The parser has seen the beginning of a request."""
        super().on_message_begin()
        self.crowded = False
        self._expect_head()

    def on_header(self, name: bytes, value: bytes) -> None:
        """The parser has read a header, or a trailer. Trailers are dropped: uvicorn would append them to the running
        request's headers."""
        if not self.heading:
            return
        if len(self.headers) >= HEADERS_AT_MOST:
            self.crowded = True
            raise Overrun
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """The parser has seen the end of a head; it is one only if uvicorn can read its target.

        An exception raised here makes the parser give up.
        """
        if len(self.pipeline) >= BEHIND:
            raise Overrun
        super().on_headers_complete()
        self.heading, self.bare = False, 0
        if self.answered is self.cycle:  # not behind one that is being answered
            self._turn(ConnectionPhase.RECEIVING)
        self._have_head()

    def request_begins(self, cycle: RequestResponseCycle) -> None:
        """The answering of this request begins."""
        offer_fast_path(cycle)
        self.answered = cycle

    def on_body(self, body: bytes) -> None:
        """The parser has read a part of a body."""
        super().on_body(body)
        self.bare = 0

    def on_message_complete(self) -> None:
        """The parser has seen the end of a request."""
        super().on_message_complete()
        self.heading, self.bare = True, 0
        if self.answered is not None and not self.answered.response_complete:
            self._turn(ConnectionPhase.ANSWERED)

    def on_response_complete(self) -> None:
        """An answer is over, and the next waiting request begins."""
        waiting = bool(self.pipeline)
        super().on_response_complete()
        self._turn(ConnectionPhase.ANSWERED if waiting else ConnectionPhase.IDLE)

    def _expect_head(self) -> None:
        """Expect a head within the timeout of an idle connection; single bytes do not extend it."""
        if self.late is None:
            self.late = self.loop.call_later(self.timeout_keep_alive, self._look_for_head)

    def _look_for_head(self) -> None:
        """Close the connection, because the head did not come. While another request is answered, wait on: its rest may
        be in the kernel, as we do not read then."""
        self.late = None
        if self.answered is None or self.answered.response_complete:
            self.transport.close()
        else:
            self._expect_head()

    def _have_head(self) -> None:
        if self.late is not None:
            self.late.cancel()
            self.late = None

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002 - uvicorn's words say nothing that helps
        """The parser gave up; say why."""
        if self.crowded:
            self.refuse(ApiError(431, TOO_MANY, code="headers_too_large"))
        else:
            self.refuse(ApiError(400, NO_HTTP, code="invalid_http"))

    def refuse(self, error: ApiError) -> None:
        """Answer with the error if a client can only take it for the answer to what is being read. Close the connection
        in any case."""
        if self.transport.is_closing():
            return
        cycle = self.cycle
        if self.heading:
            unambiguous = cycle is None or cycle.response_complete
        else:
            unambiguous = not (cycle.response_started or self.pipeline)
        if unambiguous:
            self.transport.write(refusal(error))
        self.transport.close()


def refusal(error: ApiError) -> bytes:
    """Return the complete answer for an error, as bytes."""
    body = orjson.dumps(envelope(error))
    facts = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body)), (b"connection", b"close")]
    if error.retry_after is not None:
        facts.append((b"retry-after", b"%d" % error.retry_after))
    lines = [b"%b: %b\r\n" % header for header in (*facts, *HEADERS)]
    return b"".join([STATUS_LINE[error.status], *lines, b"\r\n", body])
