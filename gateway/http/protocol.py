"""HTTP as our listeners speak it: uvicorn's own, but for what it says where no request can be read.

Rules: every answer is the envelope, also to what is no HTTP at all. A head (request line and headers) has a limit, and
so has what frames a body and what follows it (chunk sizes, trailers); the body's own is the door's. Trailers are read
and dropped: they never become headers. Nothing is written where it would be taken for another request's answer, or for
more of one that has begun: the connection ends. So it does for a client that asks and asks without waiting for answers,
and where a head is not whole in time: nobody knows yet who is there, and the door cannot ask. What comes in one read is
looked at in portions, one for each round of the loop: 256 KiB may be 40,000 headers or chunks. Of the connections
together there is a limit (`connections.py`): an idle one makes room, and where none is idle the new one is told so.
"""

from asyncio import Handle, TimerHandle
from time import thread_time
from typing import Any

import orjson

from ostler.bridge.channels.uvicorn_internals import STATUS_LINE, HttpConnection, RequestResponseCycle, ServerState
from ostler.gateway.http.auth_middleware import HEADERS
from ostler.gateway.http.connections import ConnectionPhase, Connections, TooManyConnections
from ostler.gateway.http.errors import envelope
from ostler.gateway.http.fast_path import lay_road
from ostler.gateway.model.api_error import ApiError
from ostler.wire.portions import LoopShare

HEAD_LIMIT = 64 * 1024
HEADERS_AT_MOST = 128
PORTION = 16 * 1024
"""Bytes that are looked at in one round of the loop."""
ROUND = 0.005
"""Seconds of a round that are counted at most: others may have work of their own."""
BEHIND = 64
"""Requests that may wait for the one before them: uvicorn reads on after each answer, however many there are."""
NO_HTTP = "this is no HTTP request: check the request line, the headers and how the body is cut"
TOO_MANY = f"the request has more than {HEADERS_AT_MOST} headers; send fewer"
TOO_LONG = f"the request line and headers, or the trailers, are longer than {HEAD_LIMIT} bytes; send less"


class Overrun(Exception):
    """More requests wait than may, or more headers come."""


class ListenerState(ServerState):
    """What uvicorn shares between the connections of one listener, and how many there may be."""

    def __init__(self, limit: int) -> None:
        super().__init__()
        self.open: Connections[JsonHttp] = Connections(limit)
        self.share = LoopShare()
        """Of all who send much at once: a connection more costs nothing."""


class JsonHttp(HttpConnection):
    """One connection."""

    waiting = b""
    """What was read and not looked at yet."""
    going_on: Handle | None = None
    """Set while something waits: looks at the next of it."""
    clock = 0.0
    """The loop's work until the last portion."""
    heading = True
    """Whether what comes next is of a head: false from its end to the end of its body and trailers."""
    bare = 0
    """Bytes since there was last a body's or the end of a head or request, whole pieces only: the piece that has one
    of these is not counted, for nobody says where in it they are. A piece has `PORTION` bytes at most."""
    crowded = False
    """Whether the head that is being read has too many headers."""
    late: TimerHandle | None = None
    """Ends the connection, from its first moment or the first byte after an answer to the end of a head."""
    answered: RequestResponseCycle | None = None
    """The request that is being answered, or was last: those that wait behind it begin only if the client stays."""

    def connection_made(self, transport: Any) -> None:  # what uvicorn calls the type differs between its releases
        """Somebody is there."""
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
        """Where its listener counts its connections; None: they are as many as there are."""
        return self.server_state.open if isinstance(self.server_state, ListenerState) else None

    def _turn(self, phase: ConnectionPhase) -> None:
        if self._counted is not None:
            self._counted.turn(self, phase)

    def evict(self) -> None:
        """Make room for somebody else: nothing is being answered here, or its rest does not come."""
        if self.transport.get_write_buffer_size():
            self.transport.abort()
        else:
            self.transport.close()

    def data_received(self, data: bytes) -> None:
        """What was read."""
        if self.going_on is None and len(data) <= PORTION:
            self._take(data)
            return
        self.waiting += data
        self.transport.pause_reading()
        if self.going_on is None:
            self.clock = thread_time()
            self._go_on()

    def _go_on(self) -> None:
        """The next portion; the rest when everybody else has had their turn."""
        self.going_on = None
        portion, self.waiting = self.waiting[:PORTION], self.waiting[PORTION:]
        if self.waiting:
            # What the door and the routes do with a portion is done by others; so the loop's whole work is counted.
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
        """More of a request."""
        self.bare += len(data)
        super().data_received(data)
        if self.answered is None or self.answered.response_complete:
            self._expect_head()  # uvicorn has ended its timer, and what came may begin no request
        if self.bare > HEAD_LIMIT:
            self.refuse(ApiError(431, TOO_LONG, code="headers_too_large"))

    def connection_lost(self, exc: Exception | None) -> None:
        """The client is gone: uvicorn tells the last request it read, and the one that is answered may be another.

        It also leaves the timer for the next request to run where the client was not polite.
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
        """The parser has seen the first of a request."""
        super().on_message_begin()
        self.crowded = False
        self._expect_head()

    def on_header(self, name: bytes, value: bytes) -> None:
        """The parser has read a header, or a trailer: the running request's headers are the same list."""
        if not self.heading:
            return
        if len(self.headers) >= HEADERS_AT_MOST:
            self.crowded = True
            raise Overrun
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """The parser has seen the end of a head; it is one only if uvicorn can read its target.

        What is raised here makes the parser give up.
        """
        if len(self.pipeline) >= BEHIND:
            raise Overrun
        super().on_headers_complete()
        self.heading, self.bare = False, 0
        if self.answered is self.cycle:  # not behind one that is being answered
            self._turn(ConnectionPhase.RECEIVING)
        self._have_head()

    def request_begins(self, cycle: RequestResponseCycle) -> None:
        """Its turn has come."""
        lay_road(cycle)
        self.answered = cycle

    def on_body(self, body: bytes) -> None:
        """The parser has read some of a body."""
        super().on_body(body)
        self.bare = 0

    def on_message_complete(self) -> None:
        """The parser has seen the end of a request."""
        super().on_message_complete()
        self.heading, self.bare = True, 0
        if self.answered is not None and not self.answered.response_complete:
            self._turn(ConnectionPhase.ANSWERED)

    def on_response_complete(self) -> None:
        """An answer is over, and the next request that waits begins."""
        waiting = bool(self.pipeline)
        super().on_response_complete()
        self._turn(ConnectionPhase.ANSWERED if waiting else ConnectionPhase.IDLE)

    def _expect_head(self) -> None:
        """Within the time that an idle connection has; a byte now and then buys no more of it."""
        if self.late is None:
            self.late = self.loop.call_later(self.timeout_keep_alive, self._look_for_head)

    def _look_for_head(self) -> None:
        """It is not there. While another request is answered its rest may be with the kernel: we do not read then."""
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
        """The parser gave up."""
        if self.crowded:
            self.refuse(ApiError(431, TOO_MANY, code="headers_too_large"))
        else:
            self.refuse(ApiError(400, NO_HTTP, code="invalid_http"))

    def refuse(self, error: ApiError) -> None:
        """Say why, where that can only be taken for the answer to what is being read, and hang up."""
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
    """The whole answer."""
    body = orjson.dumps(envelope(error))
    facts = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body)), (b"connection", b"close")]
    if error.retry_after is not None:
        facts.append((b"retry-after", b"%d" % error.retry_after))
    lines = [b"%b: %b\r\n" % header for header in (*facts, *HEADERS)]
    return b"".join([STATUS_LINE[error.status], *lines, b"\r\n", body])
