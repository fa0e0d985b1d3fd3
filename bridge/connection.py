"""One connection on the socket: an asyncio Protocol that splits the stream into frames and passes them on.

Rules: before the hello is accepted, nothing else is read; a hello that is too long or too late closes the connection. A
refused connection stays open and gets the same answer to every request, so that its client sees errors instead of
hanging, and learns nothing. A peer that does not read is not read from either, and its earlier frames wait until it
reads: a page of tools is a thousand times longer than the line that requests it. A peer that sends many requests gets
`AT_ONCE` answers; then other connections are served for `PAUSE` seconds before it gets more.
"""

import asyncio
from collections.abc import Iterator
from itertools import chain
from typing import Protocol, cast

from ostler.bridge import hello
from ostler.bridge.bindings import RejectReason, RelayPeer
from ostler.bridge.conversation import McpClient
from ostler.bridge.hello import Hello
from ostler.bridge.mcp import fault_frame, refuse
from ostler.wire.lines import LineSplitter, LineTooLong
from ostler.wire.rpc import INVALID_REQUEST

AT_ONCE = 64
PAUSE = 0.001


class ConnectionOwner(Protocol):
    """What a connection needs of the bridge."""

    def arrive(self, connection: "SocketConnection") -> None: ...

    def greet(self, connection: "SocketConnection", said: Hello | RejectReason) -> McpClient | None: ...

    def leave(self, connection: "SocketConnection") -> None: ...


class FrameStream(Protocol):
    """The part of a transport that is used. A protocol, because uvloop's transports do not inherit from asyncio's."""

    def write(self, data: bytes, /) -> None: ...

    def close(self) -> None: ...

    def abort(self) -> None: ...

    def is_closing(self) -> bool: ...

    def pause_reading(self) -> None: ...

    def resume_reading(self) -> None: ...

    def get_write_buffer_size(self) -> int: ...


class SocketConnection(asyncio.Protocol):
    """Reads one client's hello and frames; the bridge creates it for each accepted socket."""

    __slots__ = (
        "_backlog",
        "_conversation",
        "_greeting",
        "_lines",
        "_next",
        "_owner",
        "_paused",
        "_transport",
        "peer",
        "serial",
    )

    def __init__(self, owner: ConnectionOwner, *, serial: int, peer: RelayPeer, frame_limit: int) -> None:
        self.serial = serial
        self.peer = peer
        self._owner = owner
        self._greeting: bytes | None = b""
        self._lines = LineSplitter(frame_limit)
        self._conversation: McpClient | None = None
        self._transport: FrameStream | None = None
        self._paused = False
        self._backlog: Iterator[bytes | LineTooLong] | None = None
        self._next: asyncio.Handle | None = None
        """Set while the backlog waits so that other connections are served."""

    @property
    def waiting(self) -> int:
        return 0 if self._transport is None else self._transport.get_write_buffer_size()

    def send(self, frame: bytes) -> None:
        # A closing transport would drop the frame and log a warning for it.
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(frame)

    def close(self) -> None:
        """Write what is waiting, then close."""
        if self._transport is not None:
            self._transport.close()

    def abort(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("FrameStream", transport)
        self._owner.arrive(self)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - why it was lost changes nothing
        self._transport = None
        self._conversation = None
        self._backlog = None
        if self._next is not None:
            self._next.cancel()
            self._next = None
        self._owner.leave(self)

    def pause_writing(self) -> None:
        self._paused = True
        if self._transport is not None and not self._transport.is_closing():
            self._transport.pause_reading()

    def resume_writing(self) -> None:
        self._paused = False
        if self._next is None:
            self._go_on()

    def _go_on(self) -> None:
        self._next = None
        if self._backlog is not None and not self._paused:
            self._serve(self._backlog)
        if not self._paused and self._next is None and self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    def data_received(self, data: bytes) -> None:
        if self._greeting is not None:
            self._greet(self._greeting + data)
            return
        arrived = iter(self._lines.feed(data))
        if self._backlog is None:
            self._serve(arrived)
        else:
            self._backlog = chain(self._backlog, arrived)

    def _serve(self, frames: Iterator[bytes | LineTooLong]) -> None:
        self._backlog = frames
        for count, frame in enumerate(frames, 1):
            if isinstance(frame, LineTooLong):
                self._overflow(frame)
            elif self._conversation is not None:
                self._conversation.receive(frame)
            else:
                self._refuse(frame)
            if self._paused:
                return
            if count == AT_ONCE:
                self._wait()
                return
        self._backlog = None

    def _wait(self) -> None:
        """Pause this connection so that others are served. A closing connection gets no more answers."""
        if self._transport is None or self._transport.is_closing():
            self._backlog = None
            return
        self._transport.pause_reading()
        self._next = asyncio.get_running_loop().call_later(PAUSE, self._go_on)

    def _greet(self, data: bytes) -> None:
        line, newline, rest = data.partition(b"\n")
        if not newline and len(line) <= hello.LIMIT:
            self._greeting = line
            return
        self._greeting = None
        said = hello.parse(line) if len(line) <= hello.LIMIT else RejectReason.MALFORMED
        self._conversation = self._owner.greet(self, said)
        if self._conversation is None:
            self._lines = LineSplitter(hello.REFUSED_LIMIT)
            if not newline:
                self.close()
            elif not line.startswith(hello.MARK):
                self._refuse(line)
        if rest:
            self.data_received(rest)

    def _refuse(self, frame: bytes) -> None:
        for refused in refuse(frame):
            self.send(refused)

    def _overflow(self, frame: LineTooLong) -> None:
        if self._conversation is None:
            self.close()
        else:
            self.send(fault_frame(None, INVALID_REQUEST, str(frame)))
