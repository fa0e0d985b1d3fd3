"""An answer that clients wait for: as a stream of server-sent events, or as a whole.

Rules:
- Frames are made when a client takes them, by the encoder of its own reader: many may read one answer, from any
  position.
- A reader that falls behind takes many events at a time. One with a fast path sends events from a callback while it
  waits, all events of one round of the loop together. Its iterator is woken only if it must wait for the client, and at
  the end.
- The turn goes on while any client of its answer is connected. When the last one leaves before the end, the policy of
  the first request decides.
- An ended answer is kept for a while, so that a client whose connection broke can read the rest.
- `Reader` is where silence becomes a sign of life. Another transport (WebSocket) is another class beside `EventStream`
  that iterates a `Reader` and joins its `Audience`; another kind of heartbeat is another value of `heartbeat`.
"""

import asyncio
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol, Self

from starlette.requests import Request
from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from ostler.gateway.http.answers import SESSION_HEADER, SSE
from ostler.gateway.http.fast_path import fast_path_of
from ostler.gateway.http.frames import Encoder
from ostler.gateway.model.api_error import ApiError
from ostler.gateway.model.outcome import StopCause
from ostler.gateway.model.records import ResponseRecord
from ostler.gateway.turns.answer import AT_ONCE, AnswerStream, Ended
from ostler.gateway.turns.turn import Turn
from ostler.wire.json import JsonObject

KEEPALIVE = b": keepalive\n\n"
WATCH = "a client that waits for an answer"
"""The name of the task that watches one client."""


class FastPath(Protocol):
    """A direct way to a client that is being answered."""

    def free(self) -> bool:
        """Whether it accepts more at this moment."""

    def carry(self, frames: bytes) -> None:
        """Send the frames, after everything that was sent before."""


class Audience:
    """The clients that wait for one answer."""

    def __init__(self) -> None:
        self._there = 0
        self.deserted: Callable[[], None] | None = None
        """Called when the last client leaves; None: the turn goes on without clients."""

    @contextmanager
    def present(self) -> Iterator[None]:
        """Count the client of a stream for the duration of the block."""
        self._there += 1
        try:
            yield
        finally:
            self._leave()

    async def attend(self, request: Request, done: asyncio.Event) -> bool:
        """Wait for `done`, with or without the client of this request; return whether it is still connected."""
        self._there += 1
        async with asyncio.TaskGroup() as group:
            watch = group.create_task(self._until_gone(request), name=WATCH)
            await done.wait()
            return watch.cancel()

    async def _until_gone(self, request: Request) -> None:
        """Wait for the disconnect: the body was read before, so no other message can come."""
        while (await request.receive())["type"] != "http.disconnect":
            continue
        self._leave()

    def _leave(self) -> None:
        self._there -= 1
        if not self._there and self.deserted is not None:
            self.deserted()


@dataclass
class OpenAnswer:
    """An answer that is being made, or made again, in the dialect of its request."""

    stream: AnswerStream
    encoder: Callable[[int], Encoder]
    """Makes the encoder of a reader that begins at this frame."""
    session_id: str | None = None
    turn: Turn | None = None
    """None: nothing is being made."""
    streams: bool = False
    """Whether it may be read as a stream later too."""
    reply: Callable[[Ended], JsonObject | ApiError] | None = None
    """What a client gets that does not stream."""
    receipt: JsonObject | None = None
    """What such a client gets at once, without waiting for the end."""
    record: ResponseRecord | None = None
    """What is stored before the receipt is given."""
    audience: Audience = field(default_factory=Audience)

    def stop_if_deserted(self) -> None:
        """Stop the turn when the last client leaves before the end of this answer."""
        self.audience.deserted = self._stop

    def _stop(self) -> None:
        if self.turn is not None and not self.stream.closed:
            self.turn.stop(StopCause.DISCONNECT)


class Reader:
    """Reads an answer for one client. It waits with one bare future and one timer that checks periodically: a timer for
    each slow delta would be a large part of the cost of a delta.

    It yields `heartbeat` after `patience` seconds without an event. With a fast path in `fast_path`, events that arrive
    while the iterator waits are sent there and not yielded.
    """

    def __init__(self, stream: AnswerStream, encoder: Encoder, patience: float, heartbeat: bytes = KEEPALIVE) -> None:
        self._stream = stream
        self._encoder = encoder
        self._heartbeat = heartbeat
        self._patience = patience
        self._place = 0
        self._unsent = b""
        """Frames that were made and could not be sent."""
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
            taken = self._take()
            if frames := self._unsent:
                self._unsent = b""
                return frames
            if not taken:
                if self._stream.closed:
                    self.close()
                    raise StopAsyncIteration
                if not await self._news():
                    return self._heartbeat

    def close(self) -> None:
        """Stop reading. Idempotent; must be called if the reader leaves before the end."""
        self._stream.leave(self._wake)
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        self.fast_path = None

    def _take(self) -> int:
        """Encode the next events into `_unsent`; return how many there were."""
        events = self._stream.since(self._place)
        if events:
            self._place += len(events)
            frames = self._encoder.frames(events)
            self._unsent += frames[0] if len(frames) == 1 else b"".join(frames)
        return len(events)

    def _wake(self) -> None:
        """There is news: schedule the sending, or wake the iterator."""
        waiter = self._waiter
        if waiter is None or self._called or waiter.done():
            return
        if self.fast_path is not None:
            self._called = True
            waiter.get_loop().call_soon(self._send, self.fast_path, waiter)
        else:
            waiter.set_result(True)

    async def _news(self) -> bool:
        """Wait for more events; False if none came within `patience`."""
        loop = asyncio.get_running_loop()
        if self._timer is None:
            self._stream.join(self._wake)
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
            if fast_path.free() and not self._stream.closed:
                taken = self._take()
                if self._unsent:
                    fast_path.carry(self._unsent)
                    self._unsent = b""
                self._since = waiter.get_loop().time()
                sent = taken < AT_ONCE
        finally:
            if not sent:
                waiter.set_result(True)

    def _check_patience(self) -> None:
        loop, waiter = asyncio.get_running_loop(), self._waiter
        left = self._since + self._patience - loop.time()
        if left <= 0:
            if waiter is not None and not waiter.done() and not self._called:
                waiter.set_result(False)
            left = self._patience
        self._timer = loop.call_later(left, self._check_patience)


class EventStream(StreamingResponse):
    """Streams an answer from frame `start`."""

    def __init__(self, opened: OpenAnswer, start: int, keepalive: float) -> None:
        headers = SSE if opened.session_id is None else {**SSE, SESSION_HEADER: opened.session_id}
        self._reader = Reader(opened.stream, opened.encoder(start), keepalive)
        super().__init__(self._reader, headers=headers)
        self._audience = opened.audience

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        # Counted here and not in the reader: a generator that is abandoned is finalised at no defined time.
        self._reader.fast_path = fast_path_of(scope)
        try:
            with self._audience.present():
                await super().__call__(scope, receive, send)
        finally:
            self._reader.close()


class KeptAnswers:
    """Answers by id: those being made, and the streams of the last ones that ended."""

    def __init__(self, *, most: int, bytes_at_most: int) -> None:
        self._answers: dict[str, tuple[str, OpenAnswer]] = {}
        self._ended: OrderedDict[str, int] = OrderedDict()
        """The weights of those that ended, the oldest first."""
        self._most = most
        self._room = bytes_at_most

    def add(self, owner: str, opened: OpenAnswer) -> None:
        """Add an answer that begins."""
        self._answers[opened.stream.id] = (owner, opened)
        opened.stream.on_end.append(partial(self._end, opened))

    def find(self, name: str, owner: str) -> OpenAnswer | None:
        """Return the answer if it is still kept and belongs to this owner."""
        entry = self._answers.get(name)
        return entry[1] if entry is not None and entry[0] == owner else None

    def _end(self, opened: OpenAnswer, _end: Ended) -> None:
        """Keep the stream of an ended answer, within the limits; the oldest are dropped first."""
        opened.turn = None  # It holds the question, which no reader needs.
        name = opened.stream.id
        if not opened.streams:
            del self._answers[name]
            return
        self._ended[name] = opened.stream.weight
        self._room -= self._ended[name]
        while self._ended and (len(self._ended) > self._most or self._room < 0):
            oldest, weight = self._ended.popitem(last=False)
            self._room += weight
            del self._answers[oldest]
