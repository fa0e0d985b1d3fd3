"""Queues for the frames of an HTTP exchange until the client has taken them.

Rules: a stream is closed once and accepts no frame after that. The `McpClient` limits how much may wait: it reads
`waiting` before it sends.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterator

from ostler.bridge.conversation import McpClient


class Stream:
    """A frame sink whose frames one consumer awaits and takes."""

    __slots__ = ("_arrived", "_frames", "closed", "waiting")

    def __init__(self) -> None:
        self._frames: deque[bytes] = deque()
        self._arrived = asyncio.Event()
        self.closed = False
        self.waiting = 0

    def __len__(self) -> int:
        return len(self._frames)

    def send(self, frame: bytes) -> None:
        if not self.closed:
            self._frames.append(frame)
            self.waiting += len(frame)
            self._arrived.set()

    def close(self) -> None:
        """Accept no more frames; waiting frames can still be taken."""
        self.closed = True
        self._arrived.set()

    def drop(self) -> None:
        """Close and discard all frames: the client is gone."""
        self._frames.clear()
        self.waiting = 0
        self.close()

    async def arrival(self, patience: float) -> None:
        """Wait until there is a frame to take, the stream is closed, or `patience` seconds have passed."""
        try:
            async with asyncio.timeout(patience):
                await self._arrived.wait()
        except TimeoutError:
            return

    def take(self) -> list[bytes]:
        frames = list(self._frames)
        self._frames.clear()
        self.waiting = 0
        if not self.closed:
            self._arrived.clear()
        return frames


class HttpExchange:
    """One POST with requests: their answers and the notifications of their calls, on this response only."""

    __slots__ = ("_on_ended", "conversation", "stream")

    def __init__(self, conversation: McpClient, on_ended: Callable[["HttpExchange"], None]) -> None:
        self.conversation = conversation
        self.stream = Stream()
        self._on_ended = on_ended
        conversation.connect(self, resumed=True)

    @property
    def waiting(self) -> int:
        return self.stream.waiting

    @property
    def listening(self) -> bool:
        return self.conversation.session.listening is not None

    def send(self, frame: bytes) -> None:
        self.stream.send(frame)
        self.settle()

    def receive(self, frame: bytes) -> None:
        self.conversation.receive(frame)
        self.settle()

    def settle(self) -> None:
        """Close when no answer is owed. A call that the client cancelled counts as settled: it gets no answer."""
        if not self.conversation.session.calls and not self.listening:
            self.close()

    def close(self) -> None:
        self.conversation.session.listening = None
        self.stream.close()
        self._on_ended(self)

    def drop(self) -> None:
        """Discard all output: the client no longer reads. The calls go on; the exchange ends with the last one."""
        self.stream.drop()
        self.conversation.session.listening = None
        self.settle()

    def abandon(self) -> None:
        """Discard all output and cancel the calls: the client is gone for good."""
        self.stream.drop()
        self.conversation.discard()
        self._on_ended(self)


class Exchanges:
    """The running exchanges, oldest first. Listening exchanges never end, so new ones replace the oldest."""

    __slots__ = ("_limit", "_under_way")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._under_way: dict[HttpExchange, None] = {}

    def __iter__(self) -> Iterator[HttpExchange]:
        return iter(tuple(self._under_way))

    def __len__(self) -> int:
        return len(self._under_way)

    def begin(self, conversation: McpClient, frame: bytes) -> HttpExchange:
        exchange = HttpExchange(conversation, self._ended)
        self._under_way[exchange] = None
        exchange.receive(frame)
        for oldest in [each for each in self._under_way if each.listening][: -self._limit]:
            oldest.close()
        return exchange

    def abandon(self) -> None:
        for exchange in self:
            exchange.abandon()

    def _ended(self, exchange: HttpExchange) -> None:
        self._under_way.pop(exchange, None)


class Mailbox:
    """The sink for messages of a session outside any exchange: sent on the stream of its GET, if there is one.

    Only `list_changed` is ever sent there. One that arrives without an open stream is sent when the next stream opens.
    """

    __slots__ = ("_answers", "_missed", "_stream")

    def __init__(self) -> None:
        self._answers: list[bytes] | None = None
        self._missed: bytes | None = None
        self._stream: Stream | None = None

    @property
    def waiting(self) -> int:
        return 0 if self._stream is None else self._stream.waiting

    def send(self, frame: bytes) -> None:
        if self._answers is not None:
            self._answers.append(frame)
        elif self._stream is not None and not self._stream.closed:
            self._stream.send(frame)
        else:
            self._missed = frame

    def answers(self, conversation: McpClient, frame: bytes) -> list[bytes]:
        """The answers to a frame that starts no call."""
        answers: list[bytes] = []
        self._answers = answers
        try:
            conversation.receive(frame)
        finally:
            self._answers = None
        return answers

    def open(self) -> Stream:
        """Open the stream of a GET. It replaces an older one, so that a notification is not sent twice."""
        self.close()
        self._stream = Stream()
        if self._missed is not None:
            self._stream.send(self._missed)
            self._missed = None
        return self._stream

    def close(self) -> None:
        if self._stream is not None:
            self._stream.close()
