"""Sends frames of a stream directly to its connection, past the layers of the application: they have seen the head of
the answer, and see its end.

Rules:
- Only the continuation of a chunked body is sent this way, and only while the connection accepts it. A sender that must
  wait for the client uses the normal path.
- A connection is reached through a weak reference to its request, so that the objects of a request are freed with it,
  without waiting for the garbage collector.
"""

from weakref import ref

from starlette.types import Scope

from ostler.bridge.channels.uvicorn_internals import RequestResponseCycle, takes_chunks, write_chunk

CYCLE = "ostler.cycle"
"""The extension of a request's scope that leads to its answer."""


class Chunks:
    """The body of one answer, chunk by chunk."""

    def __init__(self, cycle: RequestResponseCycle) -> None:
        self._cycle = cycle

    def free(self) -> bool:
        """Whether the answer has begun and not ended, and the client keeps up."""
        return takes_chunks(self._cycle)

    def carry(self, frames: bytes) -> None:
        """Write the frames as one chunk."""
        write_chunk(self._cycle, frames)


def offer_fast_path(cycle: RequestResponseCycle) -> None:
    """Store the way from a request to its answer in the request's scope."""
    cycle.scope["extensions"] = {CYCLE: {"cycle": ref(cycle)}}


def fast_path_of(scope: Scope) -> Chunks | None:
    """Return the fast path of a request; None if the server does not provide one."""
    offered = scope.get("extensions", {}).get(CYCLE)
    cycle = None if offered is None else offered["cycle"]()
    return None if cycle is None else Chunks(cycle)
