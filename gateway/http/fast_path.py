"""From a stream to its connection, past the layers of the application: they have seen the head, and see the end.

Rules: only what continues a chunked body goes this way, and only while the connection takes it. Whoever must wait for
the client sends as every answer is sent. A connection is reached through its request without being held by it: what
belongs to a request is gone with it, and waits for no garbage collector.
"""

from weakref import ref

from starlette.types import Scope

from ostler.bridge.channels.uvicorn_internals import RequestResponseCycle, takes_chunks, write_chunk

CYCLE = "ostler.cycle"
"""The extension of a request's scope that leads to its answer."""


class Chunks:
    """The body of one answer."""

    def __init__(self, cycle: RequestResponseCycle) -> None:
        self._cycle = cycle

    def free(self) -> bool:
        """Whether it has begun, is not over, and the client keeps up."""
        return takes_chunks(self._cycle)

    def carry(self, frames: bytes) -> None:
        """One chunk."""
        write_chunk(self._cycle, frames)


def lay_road(cycle: RequestResponseCycle) -> None:
    """From a request to its answer."""
    cycle.scope["extensions"] = {CYCLE: {"cycle": ref(cycle)}}


def road_in(scope: Scope) -> Chunks | None:
    """None where no server of ours has laid one."""
    laid = scope.get("extensions", {}).get(CYCLE)
    cycle = None if laid is None else laid["cycle"]()
    return None if cycle is None else Chunks(cycle)
