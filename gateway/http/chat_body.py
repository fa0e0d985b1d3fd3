"""The body of POST /v1/chat/completions as typed values, and its messages as items of the Responses API. After this
module both dialects take the same path."""

from typing import Annotated, Any

from msgspec import Meta, Struct

from ostler.gateway.http.body import Fraction, FunctionTool, Metadata, Penalty, ResponseBody, Temperature, typed
from ostler.gateway.model.api_error import bad
from ostler.wire.json import JsonObject


class ChatFunction(Struct, kw_only=True):
    """A function of the client."""

    name: str
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None


class ChatTool(Struct, kw_only=True):
    """A tool of the client in the form of chat completions, with the function in a field of its own."""

    type: str
    function: ChatFunction | None = None


class StreamOptions(Struct, kw_only=True):
    """What a stream reports in addition to the answer."""

    include_usage: bool = False


class ChatBody(Struct, kw_only=True):
    """The body of POST /v1/chat/completions."""

    messages: Annotated[list[dict[str, Any]], Meta(min_length=1)]
    model: str | None = None
    stream: bool | None = None
    stream_options: StreamOptions | None = None
    tools: Annotated[list[ChatTool], Meta(max_length=128)] | None = None
    tool_choice: str | dict[str, Any] | None = None
    parallel_tool_calls: bool | None = None
    response_format: dict[str, Any] | None = None
    metadata: Metadata | None = None
    n: int | None = None
    temperature: Temperature | None = None
    top_p: Fraction | None = None
    presence_penalty: Penalty | None = None
    frequency_penalty: Penalty | None = None


def chat_body(document: Any) -> ChatBody:
    """Return the typed request. Raises a 400 that names the wrong field."""
    body = typed(document, ChatBody)
    if body.n not in (None, 1):
        raise bad("n must be 1: an agent gives one answer", "n", "unsupported_value")
    return body


def as_response_body(body: ChatBody, session: str | None) -> ResponseBody:
    """Return the same request in the terms of the Responses API."""
    return ResponseBody(
        model=body.model,
        input=[item for place, message in enumerate(body.messages) for item in items_of(message, f"messages[{place}]")],
        conversation=session,
        tools=[function_tool(tool) for tool in body.tools or ()],
        tool_choice=body.tool_choice,
        parallel_tool_calls=body.parallel_tool_calls,
        metadata=body.metadata,
        text=None if body.response_format is None else {"format": response_format(body.response_format)},
    )


def items_of(message: dict[str, Any], param: str) -> list[JsonObject]:
    """Return one message as items: an assistant's message may contain text and calls."""
    role, content = message.get("role"), message.get("content")
    if role == "tool":
        output = "" if content is None else content
        return [{"type": "function_call_output", "call_id": message.get("tool_call_id"), "output": output}]
    if role != "assistant":
        return [{"type": "message", "role": role, "content": content}]
    said = [{"type": "message", "role": "assistant", "content": content}] if content else []
    calls = message.get("tool_calls") or []
    if not isinstance(calls, list):
        raise bad(f"{param}.tool_calls must be a list", f"{param}.tool_calls")
    return [*said, *(call_item(call, param) for call in calls)]


def call_item(call: Any, param: str) -> JsonObject:
    """Return a call of the assistant as an item. Raises a 400."""
    function = call.get("function") if isinstance(call, dict) else None
    if not isinstance(function, dict):
        raise bad(f"{param}.tool_calls must name functions", f"{param}.tool_calls")
    return {
        "type": "function_call",
        "call_id": call.get("id"),
        "name": function.get("name"),
        "arguments": function.get("arguments"),
    }


def function_tool(tool: ChatTool) -> FunctionTool:
    """Return a tool in the form of the Responses API, where the function's fields are its own."""
    inner = tool.function
    if inner is None:
        return FunctionTool(type=tool.type)
    return FunctionTool(
        type=tool.type, name=inner.name, description=inner.description, parameters=inner.parameters, strict=inner.strict
    )


def response_format(given: dict[str, Any]) -> JsonObject:
    """Return the format of the answer in the form of the Responses API."""
    inner = given.get("json_schema")
    return {**inner, "type": "json_schema"} if isinstance(inner, dict) else given
