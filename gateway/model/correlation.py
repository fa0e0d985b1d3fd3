"""The request that a log line belongs to. It is set where a request comes in, and carried by the turn that it causes.

Rules:
- A client may name its request (`X-Request-Id`) if the name is short and harmless; otherwise the gateway makes a name.
  The name is returned with the answer.
- A turn outlives its request and runs in its session's task, so it takes the origin along and restores it. Nothing of a
  request is kept in the pool.
"""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass

from structlog.contextvars import bind_contextvars, reset_contextvars

NAME = re.compile(r"[A-Za-z0-9._:/+=@-]{1,128}")
TRACE = re.compile(r"00-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")


@dataclass(frozen=True, slots=True)
class RequestOrigin:
    """The request that caused a piece of work."""

    request_id: str = ""
    traceparent: str = ""
    """In the form of W3C Trace Context; empty if the client sent none."""


NONE = RequestOrigin()
ORIGIN: ContextVar[RequestOrigin] = ContextVar("ostler_origin", default=NONE)


def origin_of(headers: dict[bytes, bytes], new_id: str) -> RequestOrigin:
    """Return the origin that a request states. An id or trace in a wrong form is replaced by `new_id` or dropped."""
    name = headers.get(b"x-request-id", b"").decode("latin-1")
    trace = headers.get(b"traceparent", b"").decode("latin-1").strip()
    return RequestOrigin(name if NAME.fullmatch(name) else new_id, trace if TRACE.fullmatch(trace) else "")


@contextmanager
def on_behalf_of(origin: RequestOrigin, **facts: str) -> Iterator[None]:
    """In this block every log line has these facts and the id of the request."""
    token = ORIGIN.set(origin)
    if origin.request_id:
        facts["request_id"] = origin.request_id
    bound = bind_contextvars(**facts)
    try:
        yield
    finally:
        reset_contextvars(**bound)
        ORIGIN.reset(token)
