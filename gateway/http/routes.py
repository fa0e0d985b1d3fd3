"""One row per route: what is served and what is documented cannot differ.

Rules: the summary is written for the API's documentation; the body's schema is made from the type that reads it.
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
    """One route, as it is served and as it is documented."""

    method: str
    path: str
    endpoint: Endpoint
    summary: str
    body: type[Struct] | None = None
    query: tuple[str, ...] = ()
    answers: str = "application/json"
    open: bool = False
    """Whether the route needs no key."""

    @property
    def bare_path(self) -> str:
        """The path without the converters of its parameters."""
        return re.sub(r":\w+}", "}", self.path)


class AnyText(Convertor[str]):
    """A part of a path that may contain any text, line breaks included: the route then refuses it as a name, with a
    reason."""

    regex = r"[\s\S]*"

    def convert(self, value: str) -> str:
        return value

    def to_string(self, value: str) -> str:
        return value
