"""The published types of the Open Responses specification as a judge of what we send.

`Court` sits in the transport of a client's HTTP, so that every body and every event is judged that a test lets pass.
"""

import json
from collections.abc import AsyncIterator
from typing import Any

import httpx2  # the HTTP library of the clients
from openresponses_types import types
from pydantic import BaseModel

from tests.support.plain_http import NO_AUTHORITIES

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


class Heard(httpx2.AsyncByteStream):
    """A body on its way to the client, and a copy of it."""

    def __init__(self, inner: httpx2.AsyncByteStream, content_type: str, court: "Court") -> None:
        self._inner = inner
        self._kind = content_type
        self._court = court

    async def __aiter__(self) -> AsyncIterator[bytes]:
        pieces = []
        async for piece in self._inner:
            pieces.append(piece)
            yield piece
        self._court.judged += judge(self._kind, b"".join(pieces))

    async def aclose(self) -> None:
        await self._inner.aclose()


class Court(httpx2.AsyncBaseTransport):
    """HTTP as it is, and a verdict on each body that was read to its end."""

    def __init__(self) -> None:
        self._inner = httpx2.AsyncHTTPTransport(verify=NO_AUTHORITIES)
        self.judged = 0

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        answer = await self._inner.handle_async_request(request)
        assert isinstance(answer.stream, httpx2.AsyncByteStream)
        answer.stream = Heard(answer.stream, answer.headers.get("content-type", ""), self)
        return answer

    async def aclose(self) -> None:
        await self._inner.aclose()
