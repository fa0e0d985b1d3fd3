"""The three pipe ends of a child on the loop. Every end is closed exactly once, by its transport."""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO

from ostler.wire.pipes import handed


class Inflow(asyncio.Protocol):
    """Bytes from the child. `ended` is set at EOF, or when we closed it."""

    def __init__(self, receive: Callable[[bytes], None], on_end: Callable[[], None]) -> None:
        self._receive = receive
        self._on_end = on_end
        self.ended = False

    def data_received(self, data: bytes) -> None:
        self._receive(data)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 (a broken pipe is an end like EOF)
        self.ended = True
        self._on_end()


class Outflow(asyncio.BaseProtocol):
    """Bytes to the child, with backpressure told at once."""

    def __init__(self, on_writable: Callable[[bool], None]) -> None:
        self._on_writable = on_writable
        self.closed = False

    def pause_writing(self) -> None:
        self._on_writable(False)

    def resume_writing(self) -> None:
        self._on_writable(True)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 (the exit says more than EPIPE)
        self.closed = True


class Pipes:
    """Owns the raw ends until `connect` has handed each on. `close` works at any point, and twice."""

    def __init__(self, inflow: Inflow, errors: Inflow, outflow: Outflow, ends: tuple[IO[bytes], ...]) -> None:
        self.inflow = inflow
        self.errors = errors
        self.outflow = outflow
        self._raw = list(ends)
        self._stdin: asyncio.WriteTransport | None = None
        self._stdout: asyncio.ReadTransport | None = None
        self._stderr: asyncio.ReadTransport | None = None

    async def connect(self) -> None:
        """To be shielded: cancelled halfway, an end would have two owners or none."""
        loop = asyncio.get_running_loop()
        stdin, stdout, stderr = self._raw
        with self._disowned(stdout) as pipe:
            self._stdout, _ = await loop.connect_read_pipe(lambda: self.inflow, pipe)
        with self._disowned(stderr) as pipe:
            self._stderr, _ = await loop.connect_read_pipe(lambda: self.errors, pipe)
        with self._disowned(stdin) as pipe:
            self._stdin, _ = await loop.connect_write_pipe(lambda: self.outflow, pipe)

    @contextmanager
    def _disowned(self, end: IO[bytes]) -> Iterator[IO[bytes]]:
        """Ours to close until its transport has it."""
        with handed(end) as pipe:
            yield pipe
        self._raw.remove(end)

    @property
    def drained(self) -> bool:
        return self.inflow.ended and self.errors.ended

    def write(self, data: bytes) -> None:
        if self._stdin is not None:
            self._stdin.write(data)

    def close_stdin(self) -> None:
        """EOF, at once unless bytes are still waiting to be read."""
        if self._stdin is not None:
            self._stdin.close()

    def close(self) -> None:
        if self._stdin is not None and not self.outflow.closed and not self._is_closing(self._stdin):
            self._stdin.abort()
        for transport in (self._stdout, self._stderr):
            if transport is not None:
                transport.close()
        while self._raw:
            self._raw.pop().close()

    @staticmethod
    def _is_closing(stdin: asyncio.WriteTransport) -> bool:
        # With bytes still buffered, close() waits for a reader that is gone; without any, asyncio's abort()
        # after a close() fails.
        return stdin.is_closing() and stdin.get_write_buffer_size() == 0
