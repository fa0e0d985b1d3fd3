"""A connection of the HTTP channel before its token is checked: with a deadline, a size limit and a limited number.

Rules: uvicorn waits without limit for the rest of a request head, and accepts a head of any length. Here a connection
without a running request is unauthenticated: it must send the next head in time and within the limit, or it is closed;
when there are too many connections, the oldest unauthenticated one is closed first. A connection with a running request
stays. Unauthenticated clients cannot fill the log.
"""

import asyncio
import logging
from typing import Any

from ostler.bridge.channels.uvicorn_internals import HttpConnection

HEAD_LIMIT = 64 * 1024

# uvicorn logs each mistake of a client as a warning, which any client could cause; an error of the application is
# logged as an error and stays visible.
logger = logging.getLogger(__name__)
logger.setLevel(logging.ERROR)


class UnauthenticatedConnections(HttpConnection):
    """One HTTP connection that is closed when it stays idle or sends too large a head."""

    def __init__(self, *, connection_limit: int, head_deadline: float, **uvicorn: Any) -> None:
        super().__init__(**uvicorn)
        self.logger = logger
        self._connection_limit = connection_limit
        self._head_deadline = head_deadline
        self._silence: asyncio.TimerHandle | None = None
        self._born = 0.0
        self._heads = self._heads_seen = self._head_size = 0
        self._in_body = False

    @property
    def is_unauthenticated(self) -> bool:
        return self.cycle is None or self.cycle.response_complete

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override] # as uvicorn has it
        super().connection_made(transport)
        self._born = self.loop.time()
        self._silence = self.loop.call_later(self._head_deadline, self._check_head)
        if len(self.connections) > self._connection_limit:
            connections = [each for each in self.connections if isinstance(each, UnauthenticatedConnections)]
            oldest = min((each for each in connections if each.is_unauthenticated), key=lambda each: each._born)
            oldest.shut()

    def connection_lost(self, exc: Exception | None) -> None:
        if self._silence is not None:
            self._silence.cancel()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        heads, was_in_body = self._heads, self._in_body
        super().data_received(data)
        if heads != self._heads or was_in_body or self._in_body:
            self._head_size = 0
            return
        self._head_size += len(data)
        if self._head_size > HEAD_LIMIT:
            self.shut()

    def on_headers_complete(self) -> None:
        self._heads += 1
        self._in_body = True
        super().on_headers_complete()

    def on_message_complete(self) -> None:
        self._in_body = False
        super().on_message_complete()

    def shut(self) -> None:
        # Not counted from now on: the transport calls `connection_lost` a moment later.
        self.connections.discard(self)
        self.transport.abort()

    def _check_head(self) -> None:
        if self.is_unauthenticated and self._heads == self._heads_seen:
            self.shut()
            return
        self._heads_seen = self._heads
        self._silence = self.loop.call_later(self._head_deadline, self._check_head)
