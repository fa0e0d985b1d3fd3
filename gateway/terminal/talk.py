"""One conversation with a gateway, through its chat face.

Rules:
- What is said comes back as events, in order, and ends with the whole message. A connection that breaks in the middle
  is told as such: the gateway stores the answer, /history shows it.
- Only a request that cannot have been seen is sent again.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from urllib.parse import quote

from ostler.gateway.errors import GatewayError
from ostler.gateway.terminal.events import EventReader, object_of
from ostler.gateway.terminal.http import Line, Reply, Unreachable
from ostler.wire.json import JsonObject, encode_line

UNAUTHORIZED = 401


class TurnedDown(GatewayError):
    """The gateway says no."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass
class Talk:
    """Of one session key."""

    find: Callable[[], Awaitable[Line]]
    """A gateway that answers; asked again when the one we had is gone."""
    key: str
    settings: JsonObject = field(default_factory=dict)
    """What each message carries besides its text."""
    _line: Line | None = None

    async def say(self, text: str) -> AsyncIterator[JsonObject]:
        """Send a message or a command; everything that is answered."""
        body = encode_line({"text": text, "stream": True, **self.settings})
        async with self._sent("POST", f"{self._path}/messages", body) as reply:
            if reply.headers.get("content-type", "").startswith("text/event-stream"):
                events = EventReader()
                async for piece in reply.pieces():
                    for event in events.feed(piece):
                        yield event
            else:
                yield await whole(reply)

    async def order(self, text: str) -> JsonObject:
        """Send a command whose reply is wanted whole."""
        body = encode_line({"text": text})
        async with self._sent("POST", f"{self._path}/messages", body) as reply:
            return await whole(reply)

    async def read(self, path: str) -> JsonObject:
        """Something that is only looked at."""
        async with self._sent("GET", path) as reply:
            return await whole(reply)

    async def connect(self) -> None:
        """Find a gateway now, not with the first message."""
        self._line = await self.find()

    @asynccontextmanager
    async def _sent(self, method: str, path: str, body: bytes | None = None) -> AsyncIterator[Reply]:
        """Send a request, to another gateway where the one we had is gone."""
        async with AsyncExitStack() as stack:
            line = self._line or await self.find()
            try:
                reply = await stack.enter_async_context(line.request(method, path, body))
            except Unreachable as error:
                if not error.before_sending:
                    raise
                line = await self.find()
                reply = await stack.enter_async_context(line.request(method, path, body))
            self._line = line
            yield reply

    @property
    def _path(self) -> str:
        return f"/v1/sessions/{quote(self.key, safe='')}"


async def whole(reply: Reply) -> JsonObject:
    """The object of an answer, or `TurnedDown`."""
    found = object_of(await reply.read())
    if reply.status < 400:
        return found
    error = found.get("error")
    message = error.get("message") if isinstance(error, dict) else None
    if reply.status == UNAUTHORIZED:
        # Its own words are for those who write requests.
        message = f"the gateway at {reply.address} wants one of its keys: set OSTLER_API_KEY"
    raise TurnedDown(reply.status, str(message or f"the gateway answers {reply.status}"))
