"""A streamed answer: the frames of a feed, and what happens to the turn when its last reader disconnects."""

from functools import partial

from starlette.responses import StreamingResponse
from starlette.types import Receive, Scope, Send

from ostler.gateway.http.answers import SESSION_HEADER, SSE
from ostler.gateway.http.fast_path import fast_path_of
from ostler.gateway.http.feed import Feed
from ostler.gateway.model.outcome import StopCause
from ostler.gateway.turns.turn import Turn


class EventStream(StreamingResponse):
    """Streams frames from `start`. When the last client disconnects before the end, `turn` is stopped (None: it goes
    on)."""

    def __init__(self, feed: Feed, start: int, keepalive: float, *, session_id: str | None, turn: Turn | None) -> None:
        headers = SSE if session_id is None else {**SSE, SESSION_HEADER: session_id}
        self._reader = feed.follow(start, keepalive)
        super().__init__(self._reader, headers=headers)
        self._feed = feed
        if turn is not None:
            feed.deserted = partial(turn.stop, StopCause.DISCONNECT)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        # Counted here and not in the reader: a generator that is abandoned is finalised at no defined time.
        self._reader.fast_path = fast_path_of(scope)
        try:
            with self._feed.attended():
                await super().__call__(scope, receive, send)
        finally:
            self._reader.close()
