"""The members of uvicorn that are used beyond `Config` and `Server`, in one file, so that a new release is checked
once.

Rules: no other file imports from inside uvicorn. `PROTOCOL` and `CYCLE` name every member of its classes that these
connections use; `tests/unit/test_uvicorn_internals.py` compares them with the installed release, and with the actual
use. The upper bound in `pyproject.toml` is the next release, which is untested: raise it when the tests pass with it.
"""

from typing import Final

from uvicorn._types import ASGI3Application
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

__all__ = [
    "CYCLE",
    "PROTOCOL",
    "STATUS_LINE",
    "ASGI3Application",
    "HttpConnection",
    "RequestResponseCycle",
    "ServerState",
]

PROTOCOL: Final = frozenset(
    {
        "_start_asgi_task",
        "_unset_keepalive_if_required",
        "client",
        "connection_lost",
        "connection_made",
        "connections",
        "cycle",
        "data_received",
        "flow",
        "headers",
        "logger",
        "loop",
        "on_body",
        "on_header",
        "on_headers_complete",
        "on_message_begin",
        "on_message_complete",
        "on_response_complete",
        "pipeline",
        "send_400_response",
        "server_state",
        "timeout_keep_alive",
        "transport",
    }
)
"""Members of a connection: used, or overridden and thus expected to be called."""
CYCLE: Final = frozenset(
    {
        "chunked_encoding",
        "disconnected",
        "flow",
        "message_event",
        "response_complete",
        "response_started",
        "scope",
        "transport",
    }
)
"""Members of a request and its answer."""


class HttpConnection(HttpToolsProtocol):
    """One connection that calls `request_begins` before each request, also for pipelined ones."""

    def request_begins(self, cycle: RequestResponseCycle) -> None:
        """A hook for subclasses: the application is about to be called."""

    def stop_keep_alive_timer(self) -> None:
        """Stop the timer that closes an idle connection."""
        self._unset_keepalive_if_required()

    def _start_asgi_task(self, cycle: RequestResponseCycle, app: ASGI3Application) -> None:
        self.request_begins(cycle)
        super()._start_asgi_task(cycle, app)


def takes_chunks(cycle: RequestResponseCycle) -> bool:
    """Whether a chunked body has begun, is not over, and the client keeps up."""
    return cycle.chunked_encoding is True and not (
        cycle.flow.write_paused or cycle.disconnected or cycle.response_complete
    )


def write_chunk(cycle: RequestResponseCycle, data: bytes) -> None:
    """Write one chunk directly to the transport, without the layers of the application."""
    cycle.transport.write(b"%x\r\n%b\r\n" % (len(data), data))
