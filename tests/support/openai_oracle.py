"""The published types of the Open Responses specification as a judge of what we send."""

from typing import Any

from openresponses_types import types
from pydantic import BaseModel

EVENTS: dict[str, type[BaseModel]] = {
    "response.created": types.ResponseCreatedStreamingEvent,
    "response.queued": types.ResponseQueuedStreamingEvent,
    "response.in_progress": types.ResponseInProgressStreamingEvent,
    "response.completed": types.ResponseCompletedStreamingEvent,
    "response.failed": types.ResponseFailedStreamingEvent,
    "response.incomplete": types.ResponseIncompleteStreamingEvent,
    "response.output_item.added": types.ResponseOutputItemAddedStreamingEvent,
    "response.output_item.done": types.ResponseOutputItemDoneStreamingEvent,
    "response.content_part.added": types.ResponseContentPartAddedStreamingEvent,
    "response.content_part.done": types.ResponseContentPartDoneStreamingEvent,
    "response.output_text.delta": types.ResponseOutputTextDeltaStreamingEvent,
    "response.output_text.done": types.ResponseOutputTextDoneStreamingEvent,
    "response.reasoning_summary_part.added": types.ResponseReasoningSummaryPartAddedStreamingEvent,
    "response.reasoning_summary_part.done": types.ResponseReasoningSummaryPartDoneStreamingEvent,
    "response.reasoning_summary_text.delta": types.ResponseReasoningSummaryDeltaStreamingEvent,
    "response.reasoning_summary_text.done": types.ResponseReasoningSummaryDoneStreamingEvent,
    "response.function_call_arguments.delta": types.ResponseFunctionCallArgumentsDeltaStreamingEvent,
    "response.function_call_arguments.done": types.ResponseFunctionCallArgumentsDoneStreamingEvent,
}


def judge_response(body: dict[str, Any]) -> None:
    """Raise unless this is a response resource."""
    types.ResponseResource.model_validate(body)


def judge_stream(events: list[dict[str, Any]]) -> None:
    """Raise unless these are the events of one response, whole and in order."""
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    assert events[0]["type"] == "response.created"
    endings = {"response.completed", "response.failed", "response.incomplete"}
    assert [event["type"] in endings for event in events] == [False] * (len(events) - 1) + [True]
    for event in events:
        EVENTS[event["type"]].model_validate(event)
    judge_items(events)


def judge_items(events: list[dict[str, Any]]) -> None:
    """Raise unless every item is added, filled and done, and the pieces add up to the whole."""
    added = [event["output_index"] for event in events if event["type"] == "response.output_item.added"]
    done = {e["output_index"]: e["item"] for e in events if e["type"] == "response.output_item.done"}
    assert added == list(range(len(added)))
    assert [done[index] for index in added] == events[-1]["response"]["output"]
    for index, item in done.items():
        pieces = [e["delta"] for e in events if e["type"].endswith(".delta") and e["output_index"] == index]
        match item["type"]:
            case "message":
                assert "".join(pieces) == "".join(part["text"] for part in item["content"])
            case "reasoning":
                assert "".join(pieces) == "".join(part["text"] for part in item["summary"])
            case "function_call":
                assert "".join(pieces) == item["arguments"]
