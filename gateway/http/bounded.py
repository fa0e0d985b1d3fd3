"""Bounds a request's body while it arrives: its size, its number of JSON values, and its pace.

Rules:
- A body over the limit is a 413, announced or not; so is one with too many JSON values, which are counted as they
  arrive and before anything is built from them.
- A body that does not arrive is a 408. A client has `patience` seconds for the first bytes; each byte then buys the
  time that it takes at `SLOWEST`, but never more than `patience` from its arrival. So neither silence, nor a byte now
  and then, nor much at once and then silence keeps a request open.
- The errors are raised from `receive`, before any route has acted.
- Once the body is complete there is no time limit: `receive` then waits for the disconnect.
"""

import asyncio

from starlette.types import Message, Receive

from ostler.gateway.model.api_error import ApiError
from ostler.wire.tally import ValueTally

VALUES = 100_000
"""The default of `gateway.body_values`."""
SLOWEST = 1024
"""Bytes per second below which a body is too slow."""


class BodyTooLarge(ApiError):
    """The body is, or announces that it will be, larger than the limit."""

    def __init__(self, limit: int) -> None:
        super().__init__(413, f"the body is larger than {limit} bytes; send less, or raise gateway.body_limit")


class TooManyValues(ApiError):
    """The body has more JSON values than the limit."""

    def __init__(self, limit: int) -> None:
        text = f"the body holds more than {limit} JSON values; send less, or raise gateway.body_values"
        super().__init__(413, text, code="too_many_values", hang_up=True)


class BodyTooSlow(ApiError):
    """The rest of the body did not arrive in time."""

    def __init__(self, seen: int) -> None:
        text = f"only {seen} bytes of the body came in time; send the request again, all of it at once"
        super().__init__(408, text, code="request_timeout", hang_up=True)


class Pace:
    """The deadline for the next bytes of a body. Pure: times are passed in."""

    def __init__(self, patience: float, now: float) -> None:
        self._patience = patience
        self.until = now + patience

    def came(self, size: int, now: float) -> None:
        """Extend the deadline for bytes that arrived."""
        self.until = min(now + self._patience, self.until + size / SLOWEST)


class Measure:
    """Measures a body in bytes and JSON values."""

    def __init__(self, limit: int, values: int) -> None:
        self.seen = 0
        self._limit = limit
        self._values = values
        self._value_tally = ValueTally(values)
        self._uncounted: list[bytes] = []
        """Pieces whose values are not counted: as long as the body has fewer bytes than values are allowed, it needs no
        count."""

    def came(self, body: bytes) -> None:
        """Measure more of the body. Raises `BodyTooLarge`, `TooManyValues`."""
        self.seen += len(body)
        if self.seen > self._limit:
            raise BodyTooLarge(self._limit)
        self._uncounted.append(body)
        if self.seen <= self._values:
            return
        pieces, self._uncounted = self._uncounted, []
        if not all(map(self._value_tally.add, pieces)):
            raise TooManyValues(self._values)


def bounded(receive: Receive, limit: int, patience: float, values: int = VALUES) -> Receive:
    """Return a `receive` that gives the same messages and raises when a bound is broken."""
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
