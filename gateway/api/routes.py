"""One row for each route: what is served and what is documented cannot differ.

Rules: the summary is the endpoint's own word; the body's schema is made from the type that reads it.
"""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from msgspec import Struct
from starlette.requests import Request
from starlette.responses import Response

Endpoint = Callable[[Request], Awaitable[Response]]


@dataclass(frozen=True, slots=True)
class Row:
    """A route."""

    method: str
    path: str
    endpoint: Endpoint
    summary: str
    body: type[Struct] | None = None
    query: tuple[str, ...] = ()
    answers: str = "application/json"
    open: bool = False
    """Needs no key."""
