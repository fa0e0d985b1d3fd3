"""A streamed answer: the frames of a feed, and what becomes of the turn when its last reader leaves."""

from functools import partial

from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from ostler.gateway.http.answers import SESSION_HEADER, SSE
from ostler.gateway.http.fast_path import road_in
from ostler.gateway.http.feed import Feed
from ostler.gateway.model.outcome import StopCause
from ostler.gateway.turns.turn import Turn


class EventStream(StreamingResponse):
    """Frames from `start` on. Whoever is the last to leave before the end stops the turn (None: it goes on)."""

    def __init__(self, feed: Feed, start: int, keepalive: float, *, session_id: str | None, turn: Turn | None) -> None:
        headers = SSE if session_id is None else {**SSE, SESSION_HEADER: session_id}
        self._reader = feed.follow(start, keepalive)
        super().__init__(self._reader, headers=headers)
        self._feed = feed
        if turn is not None:
            feed.deserted = partial(turn.stop, StopCause.DISCONNECT)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        # Around the whole, and not in the reader: one that is left in the middle is finished by nobody in particular.
        self._reader.road = road_in(scope)
        try:
            with self._feed.attended():
                await super().__call__(scope, receive, send)
        finally:
            self._reader.close()
