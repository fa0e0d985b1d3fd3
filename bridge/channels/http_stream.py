"""Where the frames of an HTTP exchange wait until the client has taken them.

Rules: a stream is closed once and takes nothing after that. How much may wait is the conversation's affair: it asks
for `waiting` before it sends.
"""

import asyncio
from collections import deque
from collections.abc import Callable, Iterator

from ostler.bridge.conversation import McpClient


class Stream:
    """An outlet with somebody waiting at its other end."""

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
        """What waits is still taken."""
        self.closed = True
        self._arrived.set()

    def drop(self) -> None:
        """The client is gone."""
        self._frames.clear()
        self.waiting = 0
        self.close()

    async def arrival(self, patience: float) -> None:
        """Returns when there is something to take, when nothing will come any more, or when patience ends."""
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
    """One POST with requests: their answers, and what their calls have to say, on this response and no other."""

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
        """Ended when nothing is owed any more. A call that the client cancelled is not: it gets no answer."""
        if not self.conversation.session.calls and not self.listening:
            self.close()

    def close(self) -> None:
        self.conversation.session.listening = None
        self.stream.close()
        self._on_ended(self)

    def drop(self) -> None:
        """Nobody hears it any more. Its calls go on; when the last one is over, nothing is left of it."""
        self.stream.drop()
        self.conversation.session.listening = None
        self.settle()

    def abandon(self) -> None:
        """Its client is gone for good, and its calls with it."""
        self.stream.drop()
        self.conversation.discard()
        self._on_ended(self)


class Exchanges:
    """Those under way, oldest first. Listeners have no end of their own, so the newest push out the oldest."""

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
    """The outlet of what a session says outside of any exchange: on the stream of its GET, if there is one.

    All it ever gets there is `list_changed`. One that nobody was there to hear is told when somebody comes.
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
        """What a request that needs no call is answered."""
        answers: list[bytes] = []
        self._answers = answers
        try:
            conversation.receive(frame)
        finally:
            self._answers = None
        return answers

    def open(self) -> Stream:
        """A GET has come. Only the newest is told: the same news must not be told twice."""
        self.close()
        self._stream = Stream()
        if self._missed is not None:
            self._stream.send(self._missed)
            self._missed = None
        return self._stream

    def close(self) -> None:
        if self._stream is not None:
            self._stream.close()
