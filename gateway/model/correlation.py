"""Which request a log line belongs to: set where a request comes in, carried along by the turn it causes.

Rules: a client may name its request (`X-Request-Id`), if the name is short and harmless; else we do. The name goes back
with the answer. A turn outlives its request and runs in its session's task, so it takes its origin along and restores
it; nothing of a request lives on in the pool.
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
    """What caused a piece of work."""

    request_id: str = ""
    traceparent: str = ""
    """As W3C Trace Context has it; empty where the client sent none."""


NONE = RequestOrigin()
ORIGIN: ContextVar[RequestOrigin] = ContextVar("ostler_origin", default=NONE)


def origin_of(headers: dict[bytes, bytes], new_id: str) -> RequestOrigin:
    """The origin that a request states, as far as it can be believed."""
    name = headers.get(b"x-request-id", b"").decode("latin-1")
    trace = headers.get(b"traceparent", b"").decode("latin-1").strip()
    return RequestOrigin(name if NAME.fullmatch(name) else new_id, trace if TRACE.fullmatch(trace) else "")


@contextmanager
def on_behalf_of(origin: RequestOrigin, **facts: str) -> Iterator[None]:
    """Whatever is logged meanwhile says where it comes from."""
    token = ORIGIN.set(origin)
    if origin.request_id:
        facts["request_id"] = origin.request_id
    bound = bind_contextvars(**facts)
    try:
        yield
    finally:
        reset_contextvars(**bound)
        ORIGIN.reset(token)
