"""The events of one streamed answer: written once by its turn, read by any number of clients from any position.

Rules:
- Writing never waits. A reader that falls behind takes many events at a time.
- A feed is kept for a while after its end, so that a client whose connection broke can read the rest.
- A reader with a fast path sends events from a callback while it waits, all events of one round of the loop together.
  Its iterator is woken only if it must wait for the client, and at the end.
"""

import asyncio
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol, Self

from ostler.gateway.http.frames import FrameTemplate

KEEPALIVE = b": keepalive\n\n"
AT_ONCE = 512
"""The most frames that a reader takes at once: building all that a slow reader has missed would block every other
client."""
PIECE = 72
"""Bytes that a piece takes besides its characters."""


class FastPath(Protocol):
    """A direct way to a client that is being answered."""

    def free(self) -> bool:
        """Whether it accepts more at this moment."""

    def carry(self, frames: bytes) -> None:
        """Send the frames, after everything that was sent before."""


class Feed:
    """Events by number: frame n is the event with `sequence_number` n."""

    def __init__(self) -> None:
        self._events: list[bytes | str] = []
        """Frames, and pieces of text that become frames when a reader takes them."""
        self._templates: list[FrameTemplate] = []
        self._first_pieces: list[int] = []
        """The number of the first piece that each template applies to."""
        self._readers: set[Reader] = set()
        self.size = 0
        self.closed = False
        self.deserted: Callable[[], None] | None = None
        """Called when the last client leaves before the end."""
        self._clients = 0

    def write(self, frame: bytes) -> None:
        """Append one event as a frame."""
        self._events.append(frame)
        self.size += len(frame)
        self._wake()

    def append_delta(self, template: FrameTemplate, piece: str) -> None:
        """Append one event that is the next piece of a text; the template makes its frame later."""
        if not self._templates or self._templates[-1] is not template:
            self._templates.append(template)
            self._first_pieces.append(len(self._events))
        self._events.append(piece)
        self.size += PIECE + len(piece)
        self._wake()

    def skip(self, place: int) -> None:
        """Give the next event this number; readers have the events before it."""
        self._events += [b""] * (place - len(self._events))

    def close(self) -> None:
        """End the feed: no event follows."""
        self.closed = True
        self._wake()

    def follow(self, start: int, keepalive: float) -> "Reader":
        """Return a reader from frame `start` to the end. It yields a comment after `keepalive` seconds without an
        event."""
        return Reader(self, max(0, start), keepalive)

    @contextmanager
    def attended(self) -> Iterator[None]:
        """Count a client for the duration of the block."""
        self._clients += 1
        try:
            yield
        finally:
            self._clients -= 1
            if not self._clients and not self.closed and self.deserted is not None:
                self.deserted()

    def since(self, place: int) -> list[bytes]:
        """Return the next frames from this position, at most `AT_ONCE`."""
        events = self._events[place : place + AT_ONCE]
        return [
            event if isinstance(event, bytes) else self._template(number)(number, event)
            for number, event in enumerate(events, place)
        ]

    def join(self, reader: "Reader") -> None:
        """Wake this reader for every new event."""
        self._readers.add(reader)

    def leave(self, reader: "Reader") -> None:
        """Stop waking this reader. Idempotent."""
        self._readers.discard(reader)

    def _template(self, number: int) -> FrameTemplate:
        return self._templates[bisect_right(self._first_pieces, number) - 1]

    def _wake(self) -> None:
        for reader in self._readers:
            reader.wake(True)


class Reader:
    """Reads a feed for one client. It waits with one bare future and one timer that checks periodically: a timer for
    each slow delta would be a large part of the cost of a delta.

    With a fast path in `fast_path`, events that arrive while the iterator waits are sent there and not yielded.
    """

    def __init__(self, feed: Feed, place: int, patience: float) -> None:
        self._feed = feed
        self._place = place
        self._patience = patience
        self._waiter: asyncio.Future[bool] | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._since = 0.0
        self._called = False
        """Whether `_send` is scheduled."""
        self.fast_path: FastPath | None = None

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> bytes:
        while True:
            frames = self._feed.since(self._place)
            if frames:
                self._place += len(frames)
                return frames[0] if len(frames) == 1 else b"".join(frames)
            if self._feed.closed:
                self.close()
                raise StopAsyncIteration
            if not await self._news():
                return KEEPALIVE

    def wake(self, news: bool) -> None:
        """Wake the iterator: there is news, or there was none for too long."""
        waiter = self._waiter
        if waiter is None or waiter.done() or self._called:
            return
        if news and self.fast_path is not None:
            self._called = True
            waiter.get_loop().call_soon(self._send, self.fast_path, waiter)
        else:
            waiter.set_result(news)

    def close(self) -> None:
        """Stop reading. Idempotent; must be called if the reader leaves before the end."""
        self._feed.leave(self)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.fast_path = None

    async def _news(self) -> bool:
        """Wait for more events; False if none came within `patience`."""
        loop = asyncio.get_running_loop()
        if self._timer is None:
            self._feed.join(self)
            self._timer = loop.call_later(self._patience, self._check_patience)
        self._since = loop.time()
        self._waiter = loop.create_future()
        return await self._waiter

    def _send(self, fast_path: FastPath, waiter: "asyncio.Future[bool]") -> None:
        """Send the new events by the fast path, or wake the iterator to do it. If sending raises, the iterator is woken
        too, so that the error is raised there."""
        self._called = False
        if waiter.done():
            return
        sent = False
        try:
            if fast_path.free() and not self._feed.closed:
                frames = self._feed.since(self._place)
                if piece := frames[0] if len(frames) == 1 else b"".join(frames):
                    fast_path.carry(piece)
                self._place += len(frames)
                self._since = waiter.get_loop().time()
                sent = len(frames) < AT_ONCE
        finally:
            if not sent:
                waiter.set_result(True)

    def _check_patience(self) -> None:
        loop = asyncio.get_running_loop()
        left = self._since + self._patience - loop.time()
        if left <= 0:
            self.wake(False)
            left = self._patience
        self._timer = loop.call_later(left, self._check_patience)


class Feeds:
    """The feeds of running responses, and of the last ones that ended."""

    def __init__(self, *, most: int, bytes_at_most: int) -> None:
        self._running: dict[str, tuple[str, Feed]] = {}
        self._ended: OrderedDict[str, tuple[str, Feed]] = OrderedDict()
        self._most = most
        self._room = bytes_at_most

    def add(self, response_id: str, owner: str, feed: Feed) -> None:
        """Add the feed of a response whose stream begins."""
        self._running[response_id] = (owner, feed)

    def ended(self, response_id: str) -> None:
        """Keep the feed of an ended response, within the limits; the oldest are dropped first."""
        entry = self._running.pop(response_id, None)
        if entry is None:
            return
        self._ended[response_id] = entry
        self._room -= entry[1].size
        while self._ended and (len(self._ended) > self._most or self._room < 0):
            _, (_, oldest) = self._ended.popitem(last=False)
            self._room += oldest.size

    def find(self, response_id: str, owner: str) -> Feed | None:
        """Return the feed of this response if it is still kept and belongs to this owner."""
        entry = self._running.get(response_id) or self._ended.get(response_id)
        return entry[1] if entry is not None and entry[0] == owner else None
