"""The response resource, with every field that the Open Responses specification requires for any request.

Rules: pure. Fields of the request are echoed; fields it left out have the specification's default. Numbers that the
agent did not report are estimated and marked as such.
"""

from dataclasses import dataclass
from typing import Any

from ostler.gateway.http.body import FunctionTool, ResponseBody
from ostler.gateway.model.outcome import TurnOutcome, TurnStatus
from ostler.wire.json import JsonObject

RATE_LIMITED = frozenset({"pool_saturated"})
AUTO = "auto"
LAST = {
    TurnStatus.COMPLETED: "response.completed",
    TurnStatus.INCOMPLETE: "response.incomplete",
    TurnStatus.CANCELLED: "response.incomplete",
    TurnStatus.FAILED: "response.failed",
}
"""The event that ends the stream of a response, by its status."""
FILTERED = "content_filter"


@dataclass(frozen=True, slots=True)
class Heading:
    """The part of a response that does not change while it is made."""

    id: str
    created_at: int
    model: str
    previous_response_id: str | None
    conversation: str | None
    instructions: str | None
    store: bool
    background: bool
    body: ResponseBody


def resource(heading: Heading) -> JsonObject:
    """Return the resource of a response that has just begun."""
    body = heading.body
    return {
        "id": heading.id,
        "object": "response",
        "created_at": heading.created_at,
        "completed_at": None,
        "status": "in_progress",
        "error": None,
        "incomplete_details": None,
        "model": heading.model,
        "output": [],
        "previous_response_id": heading.previous_response_id,
        "conversation": None if heading.conversation is None else {"id": heading.conversation},
        "instructions": heading.instructions,
        "tools": [tool_echo(tool) for tool in body.tools or ()],
        "tool_choice": body.tool_choice if body.tool_choice is not None else AUTO,
        "parallel_tool_calls": body.parallel_tool_calls is not False,
        "truncation": body.truncation or "disabled",
        "text": body.text if body.text and "format" in body.text else {**(body.text or {}), "format": {"type": "text"}},
        "reasoning": reasoning_echo(body.reasoning),
        "temperature": 1.0 if body.temperature is None else body.temperature,
        "top_p": 1.0 if body.top_p is None else body.top_p,
        "presence_penalty": body.presence_penalty or 0.0,
        "frequency_penalty": body.frequency_penalty or 0.0,
        "top_logprobs": body.top_logprobs or 0,
        "max_output_tokens": body.max_output_tokens,
        "max_tool_calls": body.max_tool_calls,
        "store": heading.store,
        "background": heading.background,
        "service_tier": "default" if body.service_tier in (None, AUTO) else body.service_tier,
        "metadata": body.metadata or {},
        "safety_identifier": body.safety_identifier,
        "prompt_cache_key": body.prompt_cache_key,
        "usage": None,
    }


def tool_echo(tool: FunctionTool) -> JsonObject:
    """Return a function tool with all its fields."""
    return {
        "type": "function",
        "name": tool.name,
        "description": tool.description,
        "parameters": tool.parameters,
        "strict": tool.strict,
    }


def reasoning_echo(given: dict[str, Any] | None) -> JsonObject:
    """Return `reasoning` with both fields that the specification requires."""
    return {"effort": (given or {}).get("effort"), "summary": (given or {}).get("summary")}


def conclude(document: JsonObject, outcome: TurnOutcome, usage: JsonObject, now: int, error_text: str) -> None:
    """Write the outcome of the turn into the resource."""
    document["status"] = outcome.status.value
    document["usage"] = usage
    # An answer that could not be stored is concluded twice, so every field is set again.
    document["completed_at"] = now if outcome.status is TurnStatus.COMPLETED else None
    if outcome.status is TurnStatus.INCOMPLETE:
        document["incomplete_details"] = incomplete(outcome.reason)
    elif outcome.status is TurnStatus.FAILED:
        code = "rate_limit_exceeded" if outcome.code in RATE_LIMITED else "server_error"
        document["error"] = {"code": code, "message": error_text}


def incomplete(cause: str) -> JsonObject:
    """Return why an answer is incomplete. Strict clients know two values of `reason`; the real one is in `cause`."""
    return {"reason": FILTERED if cause == FILTERED else "max_output_tokens", "cause": cause}
