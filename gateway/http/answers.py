"""Helpers that all routes share: caller and slot of a request, JSON answers, pages."""

from dataclasses import dataclass

import orjson
from starlette.requests import Request
from starlette.responses import Response

from ostler.gateway.config.keys import Caller
from ostler.gateway.http.limits import RequestSlot
from ostler.gateway.model.api_error import ApiError, bad
from ostler.wire.json import JsonObject

SESSION_HEADER = "x-ostler-session-id"
DIGITS = 18
SSE = {"content-type": "text/event-stream; charset=utf-8", "x-accel-buffering": "no"}


def caller_of(request: Request) -> Caller:
    """Return the caller of a request, which `AuthMiddleware` has set."""
    caller = request.state.caller
    if not isinstance(caller, Caller):
        raise TypeError("a request came in without passing the door")
    return caller


def place_of(request: Request) -> RequestSlot:
    """Return the request's slot in the concurrency limit of its key, which `AuthMiddleware` has set."""
    place = request.state.place
    if not isinstance(place, RequestSlot):
        raise TypeError("a request came in without passing the door")
    return place


def document(body: JsonObject, session_id: str | None = None, status: int = 200) -> Response:
    """Return a JSON answer, with the session's id in a header."""
    headers = {} if session_id is None else {SESSION_HEADER: session_id}
    return Response(orjson.dumps(body), status, headers, "application/json")


def number(text: str) -> int | None:
    """Return a count given in a query; None for any other text, and for more than `DIGITS` digits."""
    return int(text) if text.isascii() and text.isdigit() and len(text) <= DIGITS else None


@dataclass(frozen=True, slots=True)
class ListPage:
    """Which part of a list a request asks for."""

    limit: int
    newest: bool
    """Whether the newest entry comes first."""
    after: str | None


def page_of(request: Request) -> ListPage:
    """Return the page that `order`, `after` and `limit` name. Raises a 400."""
    query = request.query_params
    limit = number(query.get("limit", "20"))
    if limit is None or not 1 <= limit <= 100:
        raise bad("limit must be a number from 1 to 100", "limit")
    order = query.get("order", "desc")
    if order not in ("asc", "desc"):
        raise bad("order must be asc or desc", "order")
    return ListPage(limit, order == "desc", query.get("after"))


def paged(listed: list[JsonObject], wanted: ListPage) -> JsonObject:
    """Return a page. `listed` is one entry longer than the page if there is more."""
    data = listed[: wanted.limit]
    return {
        "object": "list",
        "data": data,
        "first_id": data[0].get("id") if data else None,
        "last_id": data[-1].get("id") if data else None,
        "has_more": len(listed) > len(data),
    }


def no_such_item(after: str) -> ApiError:
    """Return the error for a page that should begin after an entry that does not exist."""
    return bad(f"there is no item {after[:100]!r} here", "after")


def wants_erasing(request: Request) -> bool:
    """Whether a DELETE asks to erase the text too, and not only its name."""
    return request.query_params.get("erase", "").lower() in ("true", "1")
