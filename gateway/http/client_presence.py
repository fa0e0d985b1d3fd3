"""Whether anybody is still there for an answer that is given whole.

Rules: whoever asks with the key of a request that has no answer yet waits for the same one. A turn goes on while any of
them is there; whether it does without them is the policy of the request that began it. Streams count their own readers
(`Feed.attended`).
"""

import asyncio

from starlette.requests import Request

from ostler.gateway.model.outcome import StopCause
from ostler.gateway.turns.turn import Turn

WATCH = "a client that waits for an answer"
"""The name of the task that looks after one."""


class Audience:
    """Those who wait for one answer."""

    def __init__(self) -> None:
        self._there = 0
        self._turn: Turn | None = None

    async def attend(self, request: Request, done: asyncio.Event, turn: Turn | None = None) -> bool:
        """Wait for `done`, with the client or without it; whether it is still there. `turn` is what the last one to
        leave stops."""
        self._turn = turn or self._turn
        self._there += 1
        async with asyncio.TaskGroup() as group:
            watch = group.create_task(self._until_gone(request), name=WATCH)
            await done.wait()
            return watch.cancel()

    async def _until_gone(self, request: Request) -> None:
        """The body was read before, so all that can come is the disconnect."""
        while (await request.receive())["type"] != "http.disconnect":
            continue
        self._there -= 1
        if not self._there and self._turn is not None:
            self._turn.stop(StopCause.DISCONNECT)
