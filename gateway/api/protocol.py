"""HTTP as our listeners speak it: uvicorn's own, but for what it says where no request can be read.

Rules: every answer is the envelope, also to what is no HTTP at all. A head (request line and headers) has a limit; the
body's is the door's. Into an answer that has begun nothing is written: its connection ends.
"""

import orjson
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from ostler.gateway.api.door import HEADERS
from ostler.gateway.api.errors import ApiError, envelope

HEAD_LIMIT = 64 * 1024
NO_HTTP = "this is no HTTP request: check the request line, the headers and how the body is cut"
TOO_LONG = f"the request line and headers are longer than {HEAD_LIMIT} bytes; send less"


class JsonHttp(HttpToolsProtocol):
    """One connection."""

    heading = False
    """Whether a head is being read."""
    headed = 0
    """Bytes of it, whole pieces only: one that also has its end is not counted."""

    def data_received(self, data: bytes) -> None:
        """More of a request."""
        super().data_received(data)
        if self.heading:
            self.headed += len(data)
            if self.headed > HEAD_LIMIT:
                self.refuse(ApiError(431, TOO_LONG, code="headers_too_large"))

    def on_message_begin(self) -> None:
        """The parser has seen the first byte of a request."""
        super().on_message_begin()
        self.heading, self.headed = True, 0

    def on_headers_complete(self) -> None:
        """The parser has seen the end of a head."""
        self.heading = False
        super().on_headers_complete()

    def send_400_response(self, msg: str) -> None:  # noqa: ARG002 - uvicorn's words say nothing that helps
        """The parser gave up."""
        self.refuse(ApiError(400, NO_HTTP, code="invalid_http"))

    def refuse(self, error: ApiError) -> None:
        """Say why, where that cannot be taken for the answer to an earlier request, and hang up."""
        heading, self.heading = self.heading, False
        if self.transport.is_closing():
            return
        cycle = self.cycle
        idle = cycle is None or cycle.response_complete
        if idle or not (heading or cycle.response_started or self.pipeline):
            self.transport.write(refusal(error))
        self.transport.close()


def refusal(error: ApiError) -> bytes:
    """The whole answer."""
    body = orjson.dumps(envelope(error))
    facts = (b"content-type", b"application/json"), (b"content-length", b"%d" % len(body)), (b"connection", b"close")
    lines = [b"%b: %b\r\n" % header for header in (*facts, *HEADERS)]
    return b"".join([STATUS_LINE[error.status], *lines, b"\r\n", body])
