"""One conversation with a gateway, through its chat face.

Rules:
- What is said comes back as events, in order, and ends with the whole message. A connection that breaks in the middle
  is told as such: the gateway stores the answer, /history shows it.
- Only a request that cannot have been seen is sent again, and one that a gateway which is about to stop refused: both
  wait for the next gateway.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from urllib.parse import quote

from ostler.gateway.cli.terminal.events import EventReader, object_of
from ostler.gateway.cli.terminal.http import HttpClient, HttpReply, Unreachable
from ostler.gateway.model.errors import GatewayError
from ostler.wire.json import JsonObject, encode_line

UNAUTHORIZED, UNAVAILABLE = 401, 503
STOPPING = "shutting_down"
"""The code of the refusal of a gateway that is about to stop."""


class TurnedDown(GatewayError):
    """The gateway says no."""

    def __init__(self, status: int, message: str, code: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.code = code


class NotConnected(GatewayError):
    """No gateway has been reached since the last one was lost."""

    def __init__(self) -> None:
        super().__init__("no gateway is connected")


@dataclass
class Talk:
    """Of one session key."""

    find: Callable[[], Awaitable[HttpClient]]
    """A gateway that answers; asked again when the one we had is gone."""
    key: str
    settings: JsonObject = field(default_factory=dict)
    """What each message carries besides its text."""
    searching: bool = False
    """Whether a gateway is looked for: what is to be sent then has been seen by none."""
    _line: HttpClient | None = None

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

    async def order(self, text: str, *, at_once: bool = False) -> JsonObject:
        """Send a command whose reply is wanted whole. `at_once`: to the gateway we have, or not at all."""
        body, path = encode_line({"text": text}), f"{self._path}/messages"
        if at_once:
            if self._line is None:
                raise NotConnected
            async with self._line.request("POST", path, body) as reply:
                return await whole(reply)
        async with self._sent("POST", path, body) as reply:
            return await whole(reply)

    async def read(self, path: str) -> JsonObject:
        """Something that is only looked at."""
        async with self._sent("GET", path) as reply:
            return await whole(reply)

    async def connect(self) -> None:
        """Find a gateway now, not with the first message."""
        await self._gateway()

    @asynccontextmanager
    async def _sent(self, method: str, path: str, body: bytes | None = None) -> AsyncIterator[HttpReply]:
        """Send a request, to the next gateway where the one we had is gone or about to stop."""
        while True:
            async with AsyncExitStack() as stack:
                line = self._line or await self._gateway()
                try:
                    reply = await stack.enter_async_context(line.request(method, path, body))
                    await check_taken(reply)
                except Unreachable as error:
                    self._line = None
                    if not error.before_sending:
                        raise
                    continue
                yield reply
                return

    async def _gateway(self) -> HttpClient:
        """Look for one."""
        self.searching = True
        try:
            self._line = await self.find()
        finally:
            self.searching = False
        return self._line

    @property
    def _path(self) -> str:
        return f"/v1/sessions/{quote(self.key, safe='')}"


async def check_taken(reply: HttpReply) -> None:
    """Raise `Unreachable` where the gateway refused the request because it is about to stop; `TurnedDown` where it is
    unavailable for another reason."""
    if reply.status != UNAVAILABLE:
        return
    try:
        await whole(reply)
    except TurnedDown as error:
        if error.code == STOPPING:
            raise Unreachable(reply.address, str(error), before_sending=True) from error
        raise


async def whole(reply: HttpReply) -> JsonObject:
    """The object of an answer, or `TurnedDown`."""
    found = object_of(await reply.read())
    if reply.status < 400:
        return found
    error = found.get("error")
    told = error if isinstance(error, dict) else {}
    message = told.get("message")
    if reply.status == UNAUTHORIZED:
        # Its own words are for those who write requests.
        message = f"the gateway at {reply.address} wants one of its keys: set OSTLER_API_KEY"
    raise TurnedDown(reply.status, str(message or f"the gateway answers {reply.status}"), str(told.get("code")))
