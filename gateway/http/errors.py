"""Errors as the OpenAI API shows them: always an envelope, always JSON, with a sentence that says what to do."""

import math
from collections.abc import Mapping
from typing import Any

import msgspec
import orjson
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response

from ostler.gateway.model.api_error import ApiError, bad
from ostler.gateway.model.errors import (
    CallsAnswered,
    Draining,
    RequestRefused,
    SessionQueueFull,
    StoreBusy,
    StoreError,
)
from ostler.gateway.model.outcome import TurnOutcome
from ostler.wire.redaction import redacted

SECONDS_TO_RETRY = 1
CODED = {
    "pool_saturated": (429, "rate_limit_exceeded"),
    "agent_unavailable": (503, "agent_unavailable"),
    "storage_error": (503, "storage_error"),
    "shutting_down": (503, "shutting_down"),
    "context_length_exceeded": (400, "context_length_exceeded"),
    "unsupported_content": (400, "unsupported_content"),
    "model_not_found": (404, "model_not_found"),
    "invalid_cwd": (400, "invalid_cwd"),
    "conversation_moved": (400, "conversation_moved"),
    "call_answered": (409, "call_answered"),
}
"""HTTP status and code of a failed turn whose agent sent no event."""


def missing(what: str, param: str | None = None) -> ApiError:
    """Return a 404 for something that a request names and that does not exist."""
    return ApiError(404, what, param=param, code="not_found")


def envelope(error: ApiError) -> dict[str, Any]:
    """Return the JSON body of an error."""
    return {"error": {"message": str(error), "type": error.kind, "param": error.param, "code": error.code}}


def reply(error: ApiError, headers: Mapping[str, str] | None = None) -> Response:
    """Return the complete answer for an error."""
    given = dict(headers or {})
    if error.retry_after is not None:
        given["retry-after"] = str(error.retry_after)
    if error.hang_up:
        given["connection"] = "close"
    return Response(orjson.dumps(envelope(error)), error.status, given, "application/json")


def translated(error: Exception) -> ApiError:
    """Return the API's error for any exception. An exception that is not ours becomes a 500 without details."""
    retry: int | None = SECONDS_TO_RETRY
    match error:
        case ApiError():
            return error
        case msgspec.ValidationError():
            return invalid(error)
        case CallsAnswered():
            status, code, retry = 409, "call_answered", None
        case Draining():
            status, code, retry = 503, "shutting_down", 5
        case SessionQueueFull() | StoreBusy():
            status, code = 429, "rate_limit_exceeded"
        case StoreError():
            status, code = 503, "storage_error"
        case RequestRefused():
            status, code, retry = 400, "invalid_request", None
        case _:
            return ApiError(500, "the gateway failed; its log says why", code="internal_error")
    return ApiError(status, str(error), code=code, retry_after=retry)


def invalid(error: msgspec.ValidationError) -> ApiError:
    """Return a 400 that names the field of the wrong shape."""
    said, at, place = str(error).rpartition(" - at `$")
    param = place.rstrip("`").lstrip(".") or None
    return bad(f"{param}: {said}" if at and param else str(error), param, "invalid_value")


def of_outcome(outcome: TurnOutcome) -> ApiError:
    """Return the error of a failed turn whose agent sent no event, or whose API has no other way to report failure."""
    status, code = CODED.get(outcome.code, (502, outcome.code or "agent_error"))
    retry = max(SECONDS_TO_RETRY, math.ceil(outcome.retry_after)) if status in (429, 503) else None
    return ApiError(status, redacted(outcome.message) or outcome.reason, code=code, retry_after=retry)


async def on_http_exception(_request: Request, error: Exception) -> Response:
    """Answer an error of Starlette's own: unknown route or method."""
    if not isinstance(error, HTTPException):
        raise error
    texts = {
        404: "no such route; GET /openapi.json lists what there is",
        405: "this route does not know this method; GET /openapi.json lists what there is",
    }
    problem = ApiError(error.status_code, texts.get(error.status_code, error.detail))
    return reply(problem, error.headers)
