"""One row for each route: what is served and what is documented cannot differ.

Rules: the summary is the endpoint's own word; the body's schema is made from the type that reads it.
"""

import re
from collections.abc import Awaitable, Callable
from dataclasses import dataclass

from msgspec import Struct
from starlette.convertors import Convertor
from starlette.requests import Request
from starlette.responses import Response

Endpoint = Callable[[Request], Awaitable[Response]]


@dataclass(frozen=True, slots=True)
class RouteSpec:
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

    @property
    def bare_path(self) -> str:
        """Without the kinds of its parameters."""
        return re.sub(r":\w+}", "}", self.path)


class AnyText(Convertor[str]):
    """A part of a path that may hold anything, line breaks too: what cannot be a name is then refused as one."""

    regex = r"[\s\S]*"

    def convert(self, value: str) -> str:
        return value

    def to_string(self, value: str) -> str:
        return value
