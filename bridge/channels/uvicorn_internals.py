"""The members of uvicorn that are used beyond `Config` and `Server`, in one file, so that a new release is checked
once.

Rules: no other file imports from inside uvicorn. `SERVER`, `PROTOCOL` and `CYCLE` name every member of its classes that
our servers and connections use; `tests/gateway/server/test_uvicorn_internals.py` compares them with the installed
release, and with the actual use. The upper bound in `pyproject.toml` is the next release, which is untested: raise it
when the tests pass with it.
"""

import asyncio
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

import uvicorn
from uvicorn._types import ASGI3Application
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol, RequestResponseCycle
from uvicorn.server import ServerState

__all__ = [
    "CYCLE",
    "PROTOCOL",
    "SERVER",
    "STATUS_LINE",
    "ASGI3Application",
    "EmbeddedServer",
    "HttpConnection",
    "RequestResponseCycle",
    "ServerState",
]

SERVER: Final = frozenset({"capture_signals", "server_state", "should_exit", "startup"})
"""Members of a server, beside `serve`: used, or overridden and thus expected to be called."""
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


class EmbeddedServer(uvicorn.Server):
    """A server that leaves signals to its program, and sets `listening` once it listens."""

    def __init__(self, config: uvicorn.Config, state: ServerState | None = None) -> None:
        """`state` is what its connections share."""
        super().__init__(config)
        self.listening = asyncio.Event()
        if state is not None:
            self.server_state = state

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        self.listening.set()

    def stop(self) -> None:
        """End `serve`, once the answers in progress are finished."""
        self.should_exit = True


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
