"""The dialect of the Responses API: the resource, its events, and both again from a stored response.

Rules:
- Pure. Fields of the request are echoed; fields it left out have the default of the Open Responses specification. Token
  counts that the agent did not report are estimated and marked as such.
- A stored response is the resource with the sizes of its stream's pieces (`SHAPE`, never shown). The answer is made
  again from both, so the encoder gives the events and numbers that were sent live: a client that has N of them misses
  and repeats nothing.
- A response that was never streamed, or whose gateway died while it was made, has no sizes: each item is one piece. A
  client that has more events than that gets the last one, with the number that it expects next: that event contains the
  whole response.
"""

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

from ostler.gateway.http.body import FunctionTool
from ostler.gateway.http.errors import of_outcome
from ostler.gateway.http.frames import EventEncoder, NamedEvent
from ostler.gateway.http.request_preparer import Prepared
from ostler.gateway.model.api_error import ApiError
from ostler.gateway.model.outcome import TurnOutcome, TurnStatus
from ostler.gateway.model.records import HELD_INSTRUCTIONS, ResponseRecord
from ostler.gateway.turns.answer import (
    Announced,
    AnswerEvent,
    AnswerStream,
    CallAdded,
    Ended,
    ItemBegun,
    ItemDone,
    ItemKind,
    Queued,
    Started,
    StoredAnswer,
    message,
    reasoning,
    summary_part,
    text_in,
    text_part,
)
from ostler.wire.json import JsonObject
from ostler.wire.redaction import redacted

SHAPE = "ostler_stream"
"""Key in the body of a stored response: the sizes of its stream's pieces. Removed before the body leaves the
gateway."""
OURS = frozenset((SHAPE, HELD_INSTRUCTIONS))
PIECES_KEPT = 20_000
"""The most pieces of one answer whose sizes are stored."""
RATE_LIMITED = frozenset({"pool_saturated"})
AUTO = "auto"
FILTERED = "content_filter"
LAST = {
    TurnStatus.COMPLETED: "response.completed",
    TurnStatus.INCOMPLETE: "response.incomplete",
    TurnStatus.CANCELLED: "response.incomplete",
    TurnStatus.FAILED: "response.failed",
}
"""The event that ends the stream of a response, by its status."""
UNFINISHED: JsonObject = {
    "output": [],
    "usage": None,
    "completed_at": None,
    "error": None,
    "incomplete_details": None,
}


class TextItem(NamedTuple):
    """How the events of an item with text are named."""

    text: str
    part: str
    part_index: str
    extra: JsonObject
    """Fields beside the text and its pieces."""
    empty: Callable[[str], JsonObject]
    filled: Callable[[str], JsonObject]

    def place(self, item_id: str, index: int) -> JsonObject:
        """Return the fields that say where a text belongs."""
        return {"item_id": item_id, "output_index": index, self.part_index: 0}


MESSAGE = TextItem("output_text", "content_part", "content_index", {"logprobs": []}, message, text_part)
SUMMARY = TextItem("reasoning_summary_text", "reasoning_summary_part", "summary_index", {}, reasoning, summary_part)


class ResponseForm:
    """The resource of one response, and its stream. It outlasts its turn, so it holds nothing of the question."""

    def __init__(self, answer_id: str, created_at: int, prepared: Prepared) -> None:
        self.head = resource(answer_id, created_at, prepared)
        self._read = prepared.ask.size

    def document(self, end: Ended) -> JsonObject:
        """Return the resource of the ended response."""
        outcome = end.outcome
        document: JsonObject = {
            **self.head,
            "status": outcome.status.value,
            "output": end.items,
            "usage": end.counts(self._read),
        }
        match outcome.status:
            case TurnStatus.COMPLETED:
                document["completed_at"] = end.at
            case TurnStatus.INCOMPLETE:
                document["incomplete_details"] = incomplete(outcome.reason)
            case TurnStatus.FAILED:
                code = "rate_limit_exceeded" if outcome.code in RATE_LIMITED else "server_error"
                document["error"] = {"code": code, "message": redacted(outcome.message)}
        return document

    def reply(self, end: Ended) -> JsonObject | ApiError:
        """Return the complete response, or the error of a failed turn whose agent sent no event."""
        return of_outcome(end.outcome) if end.refused else self.document(end)

    def encoder(self, start: int) -> EventEncoder:
        """Return the encoder of its stream."""
        return EventEncoder(ResponseEvents(self.head, self.document), start)


def record_of(body: JsonObject, prepared: Prepared) -> ResponseRecord | None:
    """Return the response as it is stored; None if the client asked that nothing be stored."""
    if not prepared.store:
        return None
    return ResponseRecord(
        body["id"],
        prepared.session_id,
        prepared.caller.name,
        body["status"],
        body,
        prepared.items,
        prepared.body.previous_response_id,
        prepared.slug,
        body["created_at"],
    )


def stored_response(form: ResponseForm, prepared: Prepared, answer: AnswerStream, *, streams: bool) -> StoredAnswer:
    """Return what to store with the end of a response."""
    if answer.end is None:
        raise RuntimeError("an answer is stored before it is closed")
    body, sizes = form.document(answer.end), answer.sizes if streams else None
    if sizes is not None and sum(map(len, sizes)) <= PIECES_KEPT:
        body[SHAPE] = {"started": answer.started, "sizes": sizes}
    record = record_of(body, prepared)
    return StoredAnswer(answer.items, record, prepared.slug if record else None)


class ResponseEvents:
    """The events of a response, from the resource as it begins and as it ends."""

    def __init__(self, head: JsonObject, final: Callable[[Ended], JsonObject]) -> None:
        self._head = head
        self._final = final

    def events(self, event: AnswerEvent) -> Iterator[NamedEvent]:
        match event:
            case Announced():
                status = "queued" if self._head.get("background") else "in_progress"
                yield "response.created", {"response": {**self._head, "status": status}}
            case Queued():
                yield "response.queued", {"response": {**self._head, "status": "queued"}}
            case Started():
                yield "response.in_progress", {"response": self._head}
            case ItemBegun():
                yield from begun(event)
            case ItemDone(index, item):
                yield from done(index, item)
            case CallAdded(index, item):
                yield from called(index, item)
            case Ended():
                document = self._final(event)
                yield LAST[TurnStatus(document["status"])], {"response": document}

    def delta(self, begun: ItemBegun) -> tuple[str, JsonObject, str]:
        kind = MESSAGE if begun.kind is ItemKind.MESSAGE else SUMMARY
        return f"response.{kind.text}.delta", {**kind.place(begun.id, begun.index), **kind.extra}, "delta"


def begun(event: ItemBegun) -> Iterator[NamedEvent]:
    """Yield the events of an item that begins."""
    kind = MESSAGE if event.kind is ItemKind.MESSAGE else SUMMARY
    yield "response.output_item.added", {"output_index": event.index, "item": kind.empty(event.id)}
    yield f"response.{kind.part}.added", {**kind.place(event.id, event.index), "part": kind.filled("")}


def done(index: int, item: JsonObject) -> Iterator[NamedEvent]:
    """Yield the events of an item that is complete."""
    kind, text = MESSAGE if item["type"] == "message" else SUMMARY, text_in(item)
    place = kind.place(item["id"], index)
    yield f"response.{kind.text}.done", {**place, "text": text, **kind.extra}
    yield f"response.{kind.part}.done", {**place, "part": kind.filled(text)}
    yield "response.output_item.done", {"output_index": index, "item": item}


def called(index: int, item: JsonObject) -> Iterator[NamedEvent]:
    """Yield the events of a call, or of another item that is complete at once."""
    if item.get("type") == "function_call":
        place: JsonObject = {"item_id": item["id"], "output_index": index}
        names = {"name": item["name"], "arguments": item["arguments"]}
        added = {**item, "arguments": "", "status": "in_progress"}
        yield "response.output_item.added", {"output_index": index, "item": added}
        yield "response.function_call_arguments.delta", {**place, "delta": item["arguments"]}
        yield "response.function_call_arguments.done", {**place, **names}
    else:
        yield "response.output_item.added", {"output_index": index, "item": item}
    yield "response.output_item.done", {"output_index": index, "item": item}


# --- the resource ---


def resource(answer_id: str, created_at: int, prepared: Prepared) -> JsonObject:
    """Return the resource of a response that has just begun."""
    body = prepared.body
    return {
        "id": answer_id,
        "object": "response",
        "created_at": created_at,
        "completed_at": None,
        "status": "in_progress",
        "error": None,
        "incomplete_details": None,
        "model": prepared.model,
        "output": [],
        "previous_response_id": body.previous_response_id,
        "conversation": None if prepared.slug is None else {"id": prepared.slug},
        "instructions": body.instructions,
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
        "store": prepared.store,
        "background": bool(body.background),
        "service_tier": "default" if body.service_tier in (None, AUTO) else body.service_tier,
        "metadata": body.metadata or {},
        "safety_identifier": body.safety_identifier,
        "prompt_cache_key": body.prompt_cache_key,
        "usage": None,
    }


def incomplete(cause: str) -> JsonObject:
    """Return why an answer is incomplete. Strict clients know two values of `reason`; the real one is in `cause`."""
    return {"reason": FILTERED if cause == FILTERED else "max_output_tokens", "cause": cause}


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


# --- from the store ---


def public(body: JsonObject) -> JsonObject:
    """Return the resource without the fields that only the gateway uses."""
    return {name: value for name, value in body.items() if name not in OURS}


def ended(body: JsonObject) -> bool:
    """Whether the response is complete."""
    return body.get("status") in {*LAST}


def stored_answer(stored: JsonObject) -> AnswerStream:
    """Return the answer that a stored response was."""
    shape = stored.get(SHAPE)
    items: Sequence[JsonObject] = stored.get("output", ())
    sizes: Sequence[Sequence[int]] = [()] * len(items) if shape is None else shape["sizes"]
    events: list[AnswerEvent] = [Announced()]
    if stored.get("background"):
        events.append(Queued())
    if shape is None or shape.get("started"):
        events.append(Started())
    for index, (item, cuts) in enumerate(zip(items, sizes, strict=True)):
        events += item_events(index, item, cuts)
    events.append(Ended(TurnOutcome(TurnStatus(stored["status"])), items))
    return AnswerStream.of(events)


def stored_encoder(stored: JsonObject, start: int) -> EventEncoder:
    """Return the encoder of `stored_answer`. `start` is the number of the next event that the client expects."""
    body = public(stored)
    head = {**body, **UNFINISHED, "status": "in_progress"}
    return EventEncoder(ResponseEvents(head, lambda _: body), start, skips=SHAPE not in stored)


def item_events(index: int, item: JsonObject, cuts: Sequence[int]) -> Iterator[AnswerEvent]:
    """Yield the events of a stored item, whose text had pieces of these sizes."""
    match item.get("type"):
        case "message":
            kind = ItemKind.MESSAGE
        case "reasoning":
            kind = ItemKind.THOUGHT
        case _:
            yield CallAdded(index, item)
            return
    yield ItemBegun(kind, str(item["id"]), index)
    yield from pieces(text_in(item), cuts)
    yield ItemDone(index, item)


def pieces(text: str, cuts: Sequence[int]) -> Iterator[str]:
    """Yield the text in its original pieces; as one piece if their sizes are unknown."""
    at = 0
    for size in cuts or [len(text)]:
        yield text[at : at + size]
        at += size
