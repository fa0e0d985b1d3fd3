"""The body of POST /v1/responses as typed values, and how JSON bodies are read.

Rules:
- A wrong shape is a 400 that names the field; an unknown field is ignored.
- Every accepted body can be serialised again. The JSON library reads deeper nesting than it writes, so a body that
  could be neither stored nor echoed is refused here, before anything depends on it.
"""

from collections.abc import Iterable
from typing import Annotated, Any

import msgspec
import orjson
from msgspec import Meta, Struct
from starlette.requests import Request

from ostler.gateway.http.errors import invalid
from ostler.gateway.model.api_error import bad

DEEPEST = 128
Fraction = Annotated[float, Meta(ge=0, le=1)]
Penalty = Annotated[float, Meta(ge=-2, le=2)]
Temperature = Annotated[float, Meta(ge=0, le=2)]
MetadataKey = Annotated[str, Meta(max_length=64)]
MetadataValue = Annotated[str, Meta(max_length=512)]
Metadata = Annotated[dict[MetadataKey, MetadataValue], Meta(max_length=16)]


class FunctionTool(Struct, kw_only=True):
    """A tool that the client declares. Only type `function` is supported."""

    type: str
    name: str | None = None
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None


class ResponseBody(Struct, kw_only=True):
    """The body of POST /v1/responses."""

    model: str | None = None
    input: str | list[dict[str, Any]] | None = None
    instructions: str | None = None
    previous_response_id: str | None = None
    conversation: str | dict[str, Any] | None = None
    conversation_history: list[dict[str, Any]] | None = None
    tools: Annotated[list[FunctionTool], Meta(max_length=128)] | None = None
    tool_choice: str | dict[str, Any] | None = None
    parallel_tool_calls: bool | None = None
    metadata: Metadata | None = None
    store: bool | None = None
    stream: bool | None = None
    background: bool | None = None
    truncation: str | None = None
    text: dict[str, Any] | None = None
    reasoning: dict[str, Any] | None = None
    temperature: Temperature | None = None
    top_p: Fraction | None = None
    presence_penalty: Penalty | None = None
    frequency_penalty: Penalty | None = None
    top_logprobs: Annotated[int, Meta(ge=0, le=20)] | None = None
    max_output_tokens: Annotated[int, Meta(ge=1)] | None = None
    max_tool_calls: Annotated[int, Meta(ge=1)] | None = None
    service_tier: str | None = None
    safety_identifier: str | None = None
    prompt_cache_key: str | None = None


async def read_json(request: Request) -> Any:
    """Return the body as JSON. Raises a 400."""
    content = await request.body()
    try:
        document = orjson.loads(content)
    except orjson.JSONDecodeError as error:
        raise bad(f"the body is no JSON: {error}", code="invalid_json") from error
    check_depth(document, content)
    return document


def check_depth(document: Any, content: bytes) -> None:
    """Refuse a document that is nested too deeply. One with at most `DEEPEST` brackets need not be walked."""
    if content.count(b"[") + content.count(b"{") <= DEEPEST:
        return
    level = [document]
    for _ in range(DEEPEST):
        level = [part for value in level for part in parts(value)]
        if not level:
            return
    raise bad(f"the body is nested more than {DEEPEST} levels deep", code="invalid_json")


def parts(value: Any) -> Iterable[Any]:
    """Return the values that a JSON value contains."""
    if isinstance(value, dict):
        return value.values()
    return value if isinstance(value, list) else ()


async def read_object(request: Request) -> dict[str, Any]:
    """Return the body as a JSON object; an absent body is empty. Raises a 400."""
    document = await read_json(request) if await request.body() else {}
    if not isinstance(document, dict):
        raise bad("the body must be a JSON object")
    return document


def response_body(document: Any) -> ResponseBody:
    """Return the typed request. Raises a 400 that names the wrong field."""
    try:
        return msgspec.convert(document, ResponseBody)
    except msgspec.ValidationError as error:
        raise invalid(error) from error
