"""A request's body on its way in: how much of it there may be, and how slowly it may come.

Rules: a body over the limit is 413, announced or not; so is one with too many JSON values, which are counted as they
come and before anything is built from them. One that stays away is 408: a client has a while for the first of
it, and what it sends buys it the time that the slowest line worth a word needs for so much, but never more than that
while from then on. So neither silence, nor a byte now and then, nor much at once and then silence holds a request open.
What is raised comes out of `receive`, before any route has acted. When the body is whole there is no limit of time: who
receives then waits for the client to go.
"""

import asyncio

from starlette.types import Message, Receive

from ostler.gateway.model.api_error import ApiError
from ostler.wire.tally import ValueTally

VALUES = 100_000
"""What `gateway.body_values` is where nobody says anything."""
SLOWEST = 1024
"""Bytes in a second."""


class BodyTooLarge(ApiError):
    """It is, or says that it will be, bigger than what is taken."""

    def __init__(self, limit: int) -> None:
        super().__init__(413, f"the body is larger than {limit} bytes; send less, or raise gateway.body_limit")


class TooManyValues(ApiError):
    """It has more JSON values than are taken."""

    def __init__(self, limit: int) -> None:
        text = f"the body holds more than {limit} JSON values; send less, or raise gateway.body_values"
        super().__init__(413, text, code="too_many_values", hang_up=True)


class BodyTooSlow(ApiError):
    """The rest of it did not come."""

    def __init__(self, seen: int) -> None:
        text = f"only {seen} bytes of the body came in time; send the request again, all of it at once"
        super().__init__(408, text, code="request_timeout", hang_up=True)


class Pace:
    """Until when the next of it may come. Pure: times are handed in."""

    def __init__(self, patience: float, now: float) -> None:
        self._patience = patience
        self.until = now + patience

    def came(self, size: int, now: float) -> None:
        """So much more of it is there."""
        self.until = min(now + self._patience, self.until + size / SLOWEST)


class Measure:
    """How large a body is, in bytes and values."""

    def __init__(self, limit: int, values: int) -> None:
        self.seen = 0
        self._limit = limit
        self._values = values
        self._tally = ValueTally(values)
        self._uncounted: list[bytes] = []
        """As long as the whole has fewer bytes than values are allowed."""

    def came(self, body: bytes) -> None:
        """More of it. Raises `BodyTooLarge`, `TooManyValues`."""
        self.seen += len(body)
        if self.seen > self._limit:
            raise BodyTooLarge(self._limit)
        self._uncounted.append(body)
        if self.seen <= self._values:
            return
        pieces, self._uncounted = self._uncounted, []
        if not all(map(self._tally.add, pieces)):
            raise TooManyValues(self._values)


def bounded(receive: Receive, limit: int, patience: float, values: int = VALUES) -> Receive:
    """The same messages, within these bounds."""
    measure, whole = Measure(limit, values), False
    pace: Pace | None = None

    async def next_message() -> Message:
        nonlocal whole, pace
        if whole:
            return await receive()
        loop = asyncio.get_running_loop()
        pace = pace or Pace(patience, loop.time())
        try:
            async with asyncio.timeout_at(pace.until):
                message = await receive()
        except TimeoutError as late:
            raise BodyTooSlow(measure.seen) from late
        whole = message["type"] != "http.request" or not message.get("more_body", False)
        body = message.get("body", b"")
        measure.came(body)
        pace.came(len(body), loop.time())
        return message

    return next_message
