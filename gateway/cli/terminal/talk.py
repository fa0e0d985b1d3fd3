"""A client of one conversation, over the sessions API of a gateway.

Rules:
- An answer arrives as events, in order, and ends with the whole message. If the connection breaks before that, the
  error says so: the gateway stores the answer, and /history shows it.
- A request is sent again only if no gateway can have received it, or if a gateway that is about to stop refused it.
  Both wait for the next gateway.
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
"""The error code by which a gateway that is about to stop refuses a request."""


class TurnedDown(GatewayError):
    """The gateway answered with an error."""

    def __init__(self, status: int, message: str, code: str = "") -> None:
        super().__init__(message)
        self.status = status
        self.code = code


class NotConnected(GatewayError):
    """No gateway has been found since the last one was lost."""

    def __init__(self) -> None:
        super().__init__("no gateway is connected")


@dataclass
class Talk:
    """The conversation of one session key."""

    find: Callable[[], Awaitable[HttpClient]]
    """Finds a gateway that answers; called again when the current one is gone."""
    key: str
    settings: JsonObject = field(default_factory=dict)
    """Further fields of each message."""
    searching: bool = False
    """Whether a gateway is being looked for; then no gateway has received the request that waits."""
    _client: HttpClient | None = None

    async def say(self, text: str) -> AsyncIterator[JsonObject]:
        """Send a message or command; yield the events of the answer."""
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
        """Send a command and return its reply. `at_once`: only to the current gateway; raises `NotConnected` if there
        is none."""
        body, path = encode_line({"text": text}), f"{self._path}/messages"
        if at_once:
            if self._client is None:
                raise NotConnected
            async with self._client.request("POST", path, body) as reply:
                return await whole(reply)
        async with self._sent("POST", path, body) as reply:
            return await whole(reply)

    async def read(self, path: str) -> JsonObject:
        """Send a GET request and return the reply."""
        async with self._sent("GET", path) as reply:
            return await whole(reply)

    async def connect(self) -> None:
        """Find a gateway now instead of with the first message."""
        await self._gateway()

    @asynccontextmanager
    async def _sent(self, method: str, path: str, body: bytes | None = None) -> AsyncIterator[HttpReply]:
        """Send a request; to the next gateway if the current one is gone or about to stop."""
        while True:
            async with AsyncExitStack() as stack:
                client = self._client or await self._gateway()
                try:
                    reply = await stack.enter_async_context(client.request(method, path, body))
                    await check_taken(reply)
                except Unreachable as error:
                    self._client = None
                    if not error.before_sending:
                        raise
                    continue
                yield reply
                return

    async def _gateway(self) -> HttpClient:
        """Find a gateway, and mark the search meanwhile."""
        self.searching = True
        try:
            self._client = await self.find()
        finally:
            self.searching = False
        return self._client

    @property
    def _path(self) -> str:
        return f"/v1/sessions/{quote(self.key, safe='')}"


async def check_taken(reply: HttpReply) -> None:
    """Raise `Unreachable` if the gateway refused the request because it is about to stop, and `TurnedDown` if it is
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
    """The JSON object of an answer; or `TurnedDown` if it is an error."""
    found = object_of(await reply.read())
    if reply.status < 400:
        return found
    error = found.get("error")
    error_fields = error if isinstance(error, dict) else {}
    message = error_fields.get("message")
    if reply.status == UNAUTHORIZED:
        # The gateway's own text addresses developers who write requests.
        message = f"the gateway at {reply.address} wants one of its keys: set OSTLER_API_KEY"
    raise TurnedDown(reply.status, str(message or f"the gateway answers {reply.status}"), str(error_fields.get("code")))
