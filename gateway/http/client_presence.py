"""Whether a client still waits for an answer that is given as a whole.

Rules:
- A request with the same idempotency key waits for the answer of the first one. The turn goes on while any of these
  clients is connected; the policy of the first request decides whether it goes on without them.
- Streams count their own readers (`Feed.attended`).
"""

import asyncio

from starlette.requests import Request

from ostler.gateway.model.outcome import StopCause
from ostler.gateway.turns.turn import Turn

WATCH = "a client that waits for an answer"
"""The name of the task that watches one client."""


class Audience:
    """The clients that wait for one answer."""

    def __init__(self) -> None:
        self._there = 0
        self._turn: Turn | None = None

    async def attend(self, request: Request, done: asyncio.Event, turn: Turn | None = None) -> bool:
        """Wait for `done`, with or without the client; return whether it is still connected. The last client to
        disconnect stops `turn`."""
        self._turn = turn or self._turn
        self._there += 1
        async with asyncio.TaskGroup() as group:
            watch = group.create_task(self._until_gone(request), name=WATCH)
            await done.wait()
            return watch.cancel()

    async def _until_gone(self, request: Request) -> None:
        """Wait for the disconnect: the body was read before, so no other message can come."""
        while (await request.receive())["type"] != "http.disconnect":
            continue
        self._there -= 1
        if not self._there and self._turn is not None:
            self._turn.stop(StopCause.DISCONNECT)
