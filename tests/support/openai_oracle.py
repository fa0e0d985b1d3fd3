"""The published types of the Open Responses specification as a judge of what we send.

The types are imported when something is first judged: they take longer than all our own modules, and each worker that
collects would pay for them.
"""

import json
from typing import Any

EVENTS: dict[str, str] = {
    "response.created": "ResponseCreatedStreamingEvent",
    "response.queued": "ResponseQueuedStreamingEvent",
    "response.in_progress": "ResponseInProgressStreamingEvent",
    "response.completed": "ResponseCompletedStreamingEvent",
    "response.failed": "ResponseFailedStreamingEvent",
    "response.incomplete": "ResponseIncompleteStreamingEvent",
    "response.output_item.added": "ResponseOutputItemAddedStreamingEvent",
    "response.output_item.done": "ResponseOutputItemDoneStreamingEvent",
    "response.content_part.added": "ResponseContentPartAddedStreamingEvent",
    "response.content_part.done": "ResponseContentPartDoneStreamingEvent",
    "response.output_text.delta": "ResponseOutputTextDeltaStreamingEvent",
    "response.output_text.done": "ResponseOutputTextDoneStreamingEvent",
    "response.reasoning_summary_part.added": "ResponseReasoningSummaryPartAddedStreamingEvent",
    "response.reasoning_summary_part.done": "ResponseReasoningSummaryPartDoneStreamingEvent",
    "response.reasoning_summary_text.delta": "ResponseReasoningSummaryDeltaStreamingEvent",
    "response.reasoning_summary_text.done": "ResponseReasoningSummaryDoneStreamingEvent",
    "response.function_call_arguments.delta": "ResponseFunctionCallArgumentsDeltaStreamingEvent",
    "response.function_call_arguments.done": "ResponseFunctionCallArgumentsDoneStreamingEvent",
}


def judge_response(body: dict[str, Any]) -> None:
    """Raise unless this is a response resource."""
    _validate("ResponseResource", body)


def judge_stream(events: list[dict[str, Any]]) -> None:
    """Raise unless these are the events of one response, whole and in order."""
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    assert events[0]["type"] == "response.created"
    endings = {"response.completed", "response.failed", "response.incomplete"}
    assert [event["type"] in endings for event in events] == [False] * (len(events) - 1) + [True]
    for event in events:
        _validate(EVENTS[event["type"]], event)
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


def judge(content_type: str, content: bytes) -> int:
    """Raise unless this is what the specification says, as far as it is about responses. How many were judged."""
    if content_type.startswith("text/event-stream"):
        events = [json.loads(line[6:]) for line in content.decode().split("\n") if line.startswith("data: {")]
        if not events or "sequence_number" not in events[0]:
            return 0
        judge_stream(events)
        judge_response(events[-1]["response"])
        return len(events)
    document = json.loads(content)
    if document.get("object") != "response" or "output" not in document:
        return 0
    judge_response(document)
    return 1


def _validate(name: str, value: object) -> None:
    from openresponses_types import types

    getattr(types, name).model_validate(value)
