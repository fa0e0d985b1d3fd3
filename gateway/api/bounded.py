"""A request's body on its way in: how much of it there may be, and how slowly it may come.

Rules: a body over the limit is 413, announced or not. One that stays away is 408: a client has a while for the first of
it, and for what it has sent as much longer as the slowest line needs that is worth a word, so neither silence nor a
byte now and then holds a request open. What is raised comes out of `receive`, before any route has acted. When the body
is whole there is no limit of time: who receives then waits for the client to go.
"""

import asyncio

from starlette.types import Message, Receive

from ostler.gateway.api.errors import ApiError

SLOWEST = 1024
"""Bytes in a second."""


class BodyTooLarge(ApiError):
    """It is, or says that it will be, bigger than what is taken."""

    def __init__(self, limit: int) -> None:
        super().__init__(413, f"the body is larger than {limit} bytes; send less, or raise gateway.body_limit")


class BodyTooSlow(ApiError):
    """The rest of it did not come."""

    def __init__(self, seen: int) -> None:
        text = f"only {seen} bytes of the body came in time; send the request again, all of it at once"
        super().__init__(408, text, code="request_timeout", hang_up=True)


def bounded(receive: Receive, limit: int, patience: float, *, slowest: int = SLOWEST) -> Receive:
    """The same messages, within these bounds."""
    seen, whole, begun = 0, False, 0.0

    async def next_message() -> Message:
        nonlocal seen, whole, begun
        if whole:
            return await receive()
        begun = begun or asyncio.get_running_loop().time()
        try:
            async with asyncio.timeout_at(begun + patience + seen / slowest):
                message = await receive()
        except TimeoutError as late:
            raise BodyTooSlow(seen) from late
        whole = message["type"] != "http.request" or not message.get("more_body", False)
        seen += len(message.get("body", b""))
        if seen > limit:
            raise BodyTooLarge(limit)
        return message

    return next_message
