"""One conversation with a gateway, through its chat face.

Rules:
- What is said comes back as events, in order, and ends with the whole message. A connection that breaks in the middle
  is told as such: the gateway stores the answer, /history shows it.
- Only a request that cannot have been seen is sent again.
"""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from urllib.parse import quote

from ostler.gateway.errors import GatewayError
from ostler.gateway.terminal.events import EventReader, object_of
from ostler.gateway.terminal.http import Line, Reply
from ostler.wire.json import JsonObject, encode_line


class TurnedDown(GatewayError):
    """The gateway says no."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status


@dataclass
class Talk:
    """Of one session key."""

    line: Line
    key: str
    settings: JsonObject = field(default_factory=dict)
    """What each message carries besides its text: model, cwd."""

    async def say(self, text: str) -> AsyncIterator[JsonObject]:
        """Send a message or a command; everything that is answered."""
        body = encode_line({"text": text, "stream": True, **self.settings})
        async with self.line.request("POST", f"{self._path}/messages", body) as reply:
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
        async with self.line.request("POST", f"{self._path}/messages", body) as reply:
            return await whole(reply)

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
    raise TurnedDown(reply.status, str(message or f"the gateway answers {reply.status}"))
