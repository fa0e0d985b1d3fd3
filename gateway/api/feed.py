"""The events of one streamed answer: written once by its turn, read by any number of clients from any place on.

Rules: writing never waits. A reader that falls behind takes what has piled up in one piece. Frames stay for a while
after the end, so that a client whose connection broke can come back for the rest.
"""

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator

import orjson

from ostler.wire.json import JsonObject

KEEPALIVE = b": keepalive\n\n"


class Feed:
    """Frames by number: frame n is the event with `sequence_number` n."""

    def __init__(self) -> None:
        self._frames: list[bytes] = []
        self._readers: set[asyncio.Future[bool]] = set()
        self.size = 0
        self.closed = False

    def write(self, frame: bytes) -> None:
        """One more event."""
        self._frames.append(frame)
        self.size += len(frame)
        self._wake()

    def skip(self, place: int) -> None:
        """What comes next has this number; readers hold what was before it."""
        self._frames += [b""] * (place - len(self._frames))

    def close(self) -> None:
        """That was the last one."""
        self.closed = True
        self._wake()

    async def follow(self, start: int, keepalive: float) -> AsyncIterator[bytes]:
        """Everything from frame `start` on, until the end; a comment when nothing comes for a while."""
        place = max(0, start)
        while True:
            if place < len(self._frames):
                piece = self._frames[place:]
                place += len(piece)
                yield piece[0] if len(piece) == 1 else b"".join(piece)
            elif self.closed:
                return
            elif not await self._news(keepalive):
                yield KEEPALIVE

    async def _news(self, patience: float) -> bool:
        """Wait for more; False when it took too long. A bare future and timer: this is paid for every slow delta."""
        loop = asyncio.get_running_loop()
        reader: asyncio.Future[bool] = loop.create_future()
        timer = loop.call_later(patience, wake, reader, False)
        self._readers.add(reader)
        try:
            return await reader
        finally:
            timer.cancel()
            self._readers.discard(reader)

    def _wake(self) -> None:
        for reader in self._readers:
            wake(reader, True)


def wake(reader: "asyncio.Future[bool]", news: bool) -> None:
    """Tell one who waits, once."""
    if not reader.done():
        reader.set_result(news)


def frame(kind: str, number: int, fields: JsonObject) -> bytes:
    """One event of the Responses API on the wire."""
    data = orjson.dumps({"type": kind, "sequence_number": number, **fields})
    return b"event: %b\ndata: %b\n\n" % (kind.encode(), data)


class Feeds:
    """Those that run, and the last ones that ended."""

    def __init__(self, *, most: int, bytes_at_most: int) -> None:
        self._running: dict[str, tuple[str, Feed]] = {}
        self._ended: OrderedDict[str, tuple[str, Feed]] = OrderedDict()
        self._most = most
        self._room = bytes_at_most

    def add(self, response_id: str, owner: str, feed: Feed) -> None:
        """A stream begins."""
        self._running[response_id] = (owner, feed)

    def ended(self, response_id: str) -> None:
        """It is over; keep it for a while."""
        entry = self._running.pop(response_id, None)
        if entry is None:
            return
        self._ended[response_id] = entry
        self._room -= entry[1].size
        while self._ended and (len(self._ended) > self._most or self._room < 0):
            _, (_, oldest) = self._ended.popitem(last=False)
            self._room += oldest.size

    def find(self, response_id: str, owner: str) -> Feed | None:
        """The stream of this response, if it is still held and is this owner's."""
        entry = self._running.get(response_id) or self._ended.get(response_id)
        return entry[1] if entry is not None and entry[0] == owner else None
