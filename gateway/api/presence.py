"""Whether the client of a request that has no answer yet is still there."""

import asyncio

from starlette.requests import Request

from ostler.gateway.sessions.outcome import Stop
from ostler.gateway.sessions.turn import Turn


async def until_gone(request: Request, done: asyncio.Event, turn: Turn | None) -> None:
    """Wait for `done`. A client that leaves stops the turn (None: it goes on), and the wait goes on to its end."""
    async with asyncio.TaskGroup() as group:
        watch = group.create_task(gone(request, turn))
        await done.wait()
        watch.cancel()


async def gone(request: Request, turn: Turn | None) -> None:
    """Return when the client has left. The body was read before, so all that can come is the disconnect."""
    while (await request.receive())["type"] != "http.disconnect":
        continue
    if turn is not None:
        turn.stop(Stop.DISCONNECT)
