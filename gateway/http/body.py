"""The body of POST /v1/responses as typed values, and how JSON bodies are read.

Rules:
- A wrong shape is a 400 that names the field; an unknown field is ignored.
- Every accepted body can be serialised again. The JSON library reads deeper nesting than it writes, so a body that
  could be neither stored nor echoed is refused here, before anything depends on it.
- Functions and the tool choice are checked here too: what can be refused is refused before anything is stored.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

import msgspec
import orjson
from msgspec import Meta, Struct
from starlette.requests import Request

from ostler.gateway.http.errors import invalid
from ostler.gateway.model.api_error import bad
from ostler.wire.json import JsonObject

DEEPEST = 128
Typed = TypeVar("Typed", bound=Struct)
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


def typed(document: Any, kind: type[Typed]) -> Typed:
    """Return the typed request. Raises a 400 that names the wrong field."""
    try:
        return msgspec.convert(document, kind)
    except msgspec.ValidationError as error:
        raise invalid(error) from error


NAME = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")
NAME_LIMIT = 64


@dataclass(frozen=True, slots=True)
class Functions:
    """The client's functions that the agent gets for this turn."""

    definitions: tuple[JsonObject, ...] = ()
    hint: str = ""

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the functions."""
        return tuple(str(definition["name"]) for definition in self.definitions)


def functions_of(tools: Sequence[FunctionTool] | None, choice: str | dict[str, Any] | None) -> Functions:
    """Return the functions that the tool choice lets the agent see. Raises a 400."""
    definitions = [definition_of(tool, place) for place, tool in enumerate(tools or ())]
    names = [str(definition["name"]) for definition in definitions]
    if len(set(names)) != len(names):
        raise bad("tools: two functions have the same name", "tools")
    match choice:
        case None | "auto":
            return Functions(tuple(definitions))
        case "none":
            return Functions()
        case "required":
            return Functions(tuple(definitions), insisting(names))
        case dict():
            return named_choice(definitions, choice)
        case _:
            raise bad("tool_choice must be none, auto, required, or name a function of tools", "tool_choice")


def named_choice(definitions: Sequence[JsonObject], choice: dict[str, Any]) -> Functions:
    """Return one function that must be called, or the list of those that may be."""
    listed = choice.get("tools")
    if choice.get("type") == "allowed_tools" and isinstance(listed, list):
        allowed = [tool.get("name") if isinstance(tool, dict) else None for tool in listed]
        return chosen(definitions, allowed, insist=choice.get("mode") == "required")
    inner = choice.get("function")
    name = choice.get("name") or (inner.get("name") if isinstance(inner, dict) else None)
    return chosen(definitions, [name], insist=True)


def chosen(definitions: Sequence[JsonObject], names: Sequence[object], *, insist: bool) -> Functions:
    """Return only the named functions. Raises a 400 for a name that is not declared."""
    left = tuple(definition for definition in definitions if definition["name"] in names)
    if len(left) != len(names):
        raise bad("tool_choice names a function that is not in tools", "tool_choice")
    return Functions(left, insisting([str(name) for name in names]) if insist else "")


def insisting(names: Sequence[str]) -> str:
    """Return the instruction to call a tool: an agent cannot be forced, only told."""
    return f"[tools] Before you answer, call at least one of these tools: {', '.join(names)}." if names else ""


def definition_of(tool: FunctionTool, place: int) -> JsonObject:
    """Return a function as an MCP tool definition. Raises a 400."""
    param = f"tools[{place}]"
    if tool.type != "function":
        text = f"{param}: tools of type {tool.type[:80]!r} are not supported; the agent brings its own, send functions"
        raise bad(text, f"{param}.type", "unsupported_tool")
    if not tool.name or len(tool.name) > NAME_LIMIT or not NAME.issuperset(tool.name):
        raise bad(f"{param}.name must have 1 to {NAME_LIMIT} letters, digits, '_' or '-'", f"{param}.name")
    schema = tool.parameters or {"type": "object", "properties": {}}
    if schema.get("type") != "object":
        raise bad(f"{param}.parameters must be a JSON schema of type object", f"{param}.parameters")
    # qwen (0.15.10) hides a tool without a description from its model.
    described = tool.description or f"The client's function {tool.name}."
    return {"name": tool.name, "description": described, "inputSchema": schema}
