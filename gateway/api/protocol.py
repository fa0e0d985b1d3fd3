"""HTTP as our listeners speak it: uvicorn's own, but for what it says where no request can be read.

Rules: every answer is the envelope, also to what is no HTTP at all. A head (request line and headers) has a limit, and
so has what frames a body and what follows it (chunk sizes, trailers); the body's own is the door's. Trailers are read
and dropped: they never become headers. Nothing is written where it would be taken for another request's answer, or for
more of one that has begun: the connection ends. So it does for a client that asks and asks without waiting for answers,
and where a head is not whole in time: nobody knows yet who is there, and the door cannot ask.
"""

from asyncio import TimerHandle
from typing import Any

import orjson

from ostler.bridge.channels.uvicorn_internals import STATUS_LINE, HttpConnection, RequestResponseCycle
from ostler.gateway.api.door import HEADERS
from ostler.gateway.api.errors import ApiError, envelope
from ostler.gateway.api.road import lay_road

HEAD_LIMIT = 64 * 1024
BEHIND = 64
"""Requests that may wait for the one before them: uvicorn reads on after each answer, however many there are."""
NO_HTTP = "this is no HTTP request: check the request line, the headers and how the body is cut"
TOO_LONG = f"the request line and headers, or the trailers, are longer than {HEAD_LIMIT} bytes; send less"


class Overrun(Exception):
    """More requests wait than may."""


class JsonHttp(HttpConnection):
    """One connection."""

    heading = True
    """Whether what comes next is of a head: false from its end to the end of its body and trailers."""
    bare = 0
    """Bytes since there was last a body's or the end of a head or request, whole pieces only: the piece that has one
    of these is not counted, for nobody says where in it they are. A piece is one read of the loop: 256 KiB at most."""
    late: TimerHandle | None = None
    """Ends the connection, from its first moment or the first byte after an answer to the end of a head."""
    answered: RequestResponseCycle | None = None
    """The request that is being answered, or was last: those that wait behind it begin only if the client stays."""

    def connection_made(self, transport: Any) -> None:  # what uvicorn calls the type differs between its releases
        """Somebody is there."""
        super().connection_made(transport)
        self._expect_head()

    def data_received(self, data: bytes) -> None:
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
        self.stop_keep_alive_timer()
        self._have_head()
        cycle, self.answered = self.answered, None
        if cycle is not None and not cycle.response_complete:
            cycle.disconnected = True
            cycle.message_event.set()

    def on_message_begin(self) -> None:
        """The parser has seen the first of a request."""
        super().on_message_begin()
        self._expect_head()

    def on_header(self, name: bytes, value: bytes) -> None:
        """The parser has read a header, or a trailer: the running request's headers are the same list."""
        if self.heading:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """The parser has seen the end of a head; it is one only if uvicorn can read its target.

        What is raised here makes the parser give up.
        """
        if len(self.pipeline) >= BEHIND:
            raise Overrun
        super().on_headers_complete()
        self.heading, self.bare = False, 0
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
    facts = (b"content-type", b"application/json"), (b"content-length", b"%d" % len(body)), (b"connection", b"close")
    lines = [b"%b: %b\r\n" % header for header in (*facts, *HEADERS)]
    return b"".join([STATUS_LINE[error.status], *lines, b"\r\n", body])
