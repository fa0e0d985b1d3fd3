"""The three pipe ends of a child on the loop. Every end is closed exactly once, by its transport.

Rules:
- What a child writes is delivered in portions, one per iteration of the loop (more while they are cheap), and the pipe
  is not read while portions wait. So a child that writes without end gets its share of the loop and no more, and its
  output waits in its own pipe.
- A sender pays for its portions with pauses (`LoopShare`). If nothing else uses the loop in the first millisecond of a
  pause, the pause ends there: a single fast stream is hardly slowed down.
"""

import asyncio
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import thread_time
from typing import IO, cast

from ostler.wire.pipes import handed
from ostler.wire.portions import LINES, LoopShare, Portions

FOLLOWS = 10
"""The most that a portion is charged, as a multiple of the time its delivery took."""
ROUNDS = 6
"""Iterations of the loop in which the consumers of a portion work on it. Later work in a pause is that of others."""
LOOK, ALONE = 0.001, 0.0001
"""Seconds that are looked at after these, and the seconds of work of others in it, or in the rest of the pause, above
which the sender is not alone."""
CHEAP, CHEAP_PORTIONS = 0.0005, 16
"""The most portions of one iteration, and the seconds of work after which no other is begun. Pieces of text cost a
microsecond a line; with 32 of them in an iteration most of the time went into iterations."""
NEW_BURST = 0.05
"""Seconds after a portion; later work of the loop is not charged to it."""


class Inflow(asyncio.Protocol):
    """Bytes from the child. `ended` is set once EOF has come, or we closed it, and all bytes before it are
    delivered.
    """

    def __init__(
        self,
        receive: Callable[[bytes], None],
        on_end: Callable[[], None],
        *,
        lines: int = LINES,
        cheap: float = CHEAP,
        share: LoopShare | None = None,
    ) -> None:
        """`lines`: the most lines of one portion. `cheap`: see `CHEAP`. `share`: when it may go on; its own if None."""
        self._receive = receive
        self._on_end = on_end
        self._portions = Portions(lines=lines)
        self._transport: asyncio.ReadTransport | None = None
        self._next: asyncio.Handle | None = None
        """Set while portions wait or a pause lasts: delivers the next one, or reads on."""
        self._cheap = cheap
        self._share = share or LoopShare()
        self._clock = 0.0
        """The thread's CPU time at the last portion; `_portion_at` is the loop time of it."""
        self._portion_at = -NEW_BURST
        self._cost = 0.0
        """CPU time of delivering the last portion. Consumers work on it afterwards, among other things."""
        self._lost = False
        self.ended = False

    @property
    def behind(self) -> bool:
        """Whether the child may have written bytes that are not delivered yet: its pipe is not read meanwhile."""
        return self._next is not None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast("asyncio.ReadTransport", transport)

    def data_received(self, data: bytes) -> None:
        if self._portions.fits(data):
            self._receive(data)
            return
        self._portions.put(data)
        if self._next is None:
            if self._transport is not None:
                self._transport.pause_reading()
            if asyncio.get_running_loop().time() - self._portion_at > NEW_BURST:
                self._clock = thread_time()
            self._hand_on()

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 (a broken pipe is an end like EOF)
        self._lost = True
        if self._next is None:
            self._end()

    def drop(self) -> None:
        """Discard the waiting portions: the consumer is gone."""
        self._portions.clear()

    def _hand_on(self) -> None:
        if not self._portions.held:  # the pause after the last portion is over, or what waited was dropped
            self._next = None
            self._read_on()
            return
        loop, began = asyncio.get_running_loop(), thread_time()
        used, self._clock = min(began - self._clock, FOLLOWS * self._cost), began
        self._portion_at = loop.time()
        self._next = loop.call_soon(self._hand_on)
        try:
            self._deliver(began)
        finally:
            self._cost = thread_time() - began
            if self._share.wait_after(used, self._portion_at):  # also with nothing left: the next read waits then
                self._next.cancel()
                self._next = loop.call_soon(self._settle, ROUNDS)
            elif not self._portions.held:
                self._next.cancel()
                self._next = None
                self._read_on()

    def _deliver(self, began: float) -> None:
        """Deliver a portion, and others as long as they cost next to nothing."""
        for _ in range(CHEAP_PORTIONS):
            if portion := self._portions.take():
                self._receive(portion)
            if not self._portions.held or thread_time() - began > self._cheap:
                return

    def _settle(self, rounds: int) -> None:
        """The beginning of a pause: let what follows from the last portion happen."""
        loop = asyncio.get_running_loop()
        if rounds:
            self._next = loop.call_soon(self._settle, rounds - 1)
        else:
            self._next = loop.call_later(LOOK, self._look, thread_time())

    def _look(self, clock: float) -> None:
        """End the pause if the loop had nothing else to do since it settled."""
        loop = asyncio.get_running_loop()
        rest = self._share.wait_more(loop.time(), alone=thread_time() - clock <= ALONE)
        self._next = loop.call_later(rest, self._rested, thread_time()) if rest else loop.call_soon(self._hand_on)

    def _rested(self, clock: float) -> None:
        """The end of a whole pause: note whether others used it."""
        self._share.wait_more(asyncio.get_running_loop().time(), alone=thread_time() - clock <= ALONE)
        self._hand_on()

    def _read_on(self) -> None:
        if self._lost:
            self._end()
        elif self._transport is not None and not self._transport.is_closing():
            self._transport.resume_reading()

    def _end(self) -> None:
        self.ended = True
        self._on_end()


class Outflow(asyncio.BaseProtocol):
    """Bytes to the child; backpressure is reported at once."""

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
    """Owns the raw ends until `connect` has given each to its transport. `close` works at any point, and twice."""

    def __init__(self, inflow: Inflow, errors: Inflow, outflow: Outflow, ends: tuple[IO[bytes], ...]) -> None:
        self.inflow = inflow
        self.errors = errors
        self.outflow = outflow
        self._raw = list(ends)
        self._stdin: asyncio.WriteTransport | None = None
        self._stdout: asyncio.ReadTransport | None = None
        self._stderr: asyncio.ReadTransport | None = None

    async def connect(self) -> None:
        """Give each end to its transport. The caller must shield this: cancelled halfway, an end would have two owners
        or none.
        """
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
        """Remove the end from the raw ends once its transport has it; until then `close` closes it."""
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
        """Send EOF, at once unless written bytes are still buffered."""
        if self._stdin is not None:
            self._stdin.close()

    @property
    def behind(self) -> bool:
        return self.inflow.behind or self.errors.behind

    def close(self) -> None:
        self.inflow.drop()
        self.errors.drop()
        if self._stdin is not None and not self.outflow.closed and not self._is_closing(self._stdin):
            self._stdin.abort()
        for transport in (self._stdout, self._stderr):
            if transport is not None:
                transport.close()
        while self._raw:
            self._raw.pop().close()

    @staticmethod
    def _is_closing(stdin: asyncio.WriteTransport) -> bool:
        # With bytes still buffered, close() waits for a reader that is gone; without any, asyncio's abort() after a
        # close() fails.
        return stdin.is_closing() and stdin.get_write_buffer_size() == 0
