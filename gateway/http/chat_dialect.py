"""The dialect of chat completions: one message, whole or in chunks, and both again from a stored completion.

Rules:
- Pure. Only text and thoughts stream; what the agent does itself is not told.
- Only the conversation is stored, no completion: its message has the items of a response, in the order of a message.
- A stored completion has no pieces: its text is one chunk.
"""

from collections.abc import Callable, Sequence

from ostler.gateway.http.errors import envelope, of_outcome
from ostler.gateway.http.frames import FrameTemplate, chunk, chunks_of
from ostler.gateway.model.api_error import ApiError
from ostler.gateway.model.outcome import TurnOutcome, TurnStatus
from ostler.gateway.turns.answer import (
    Announced,
    AnswerEvent,
    AnswerStream,
    Ended,
    ItemBegun,
    ItemKind,
    Started,
    StoredAnswer,
)
from ostler.gateway.turns.pending_calls import AskedCall
from ostler.wire.json import JsonObject

DONE = b"data: [DONE]\n\n"
FIELDS = {ItemKind.MESSAGE: "content", ItemKind.THOUGHT: "reasoning_content"}
"""The field of a message that the text of an item belongs to; an activity has none."""


class CompletionForm:
    """One chat completion: its document, and the encoder of its stream."""

    def __init__(self, completion_id: str, created: int, model: str, *, read: int, include_usage: bool) -> None:
        """`read`: the characters of the question."""
        self._head: JsonObject = {"id": completion_id, "created": created, "model": model}
        self._read = read
        self._include_usage = include_usage

    def reply(self, end: Ended) -> JsonObject | ApiError:
        """Return the completion, or the error of a failed turn."""
        if end.outcome.status is TurnStatus.FAILED:
            return of_outcome(end.outcome)
        message: JsonObject = {"role": "assistant", "content": end.text or None, "refusal": None}
        if end.calls:
            message["tool_calls"] = [call_entry(call) for call in end.calls]
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": reason_of(end)}
        usage = end.counts(self._read, len(end.text))
        return {**self._head, "object": "chat.completion", "choices": [choice], "usage": counts(usage)}

    def encoder(self, start: int) -> "ChunkEncoder":
        """Return the encoder of its stream, which is always read from its beginning."""
        del start
        return ChunkEncoder(self._head, self._final, include_usage=self._include_usage)

    def _final(self, end: Ended) -> JsonObject:
        found = self.reply(end)
        return envelope(found) if isinstance(found, ApiError) else found


class ChunkEncoder:
    """Encodes an answer as chunks. `final` returns the completion, or the envelope of an error."""

    def __init__(self, head: JsonObject, final: Callable[[Ended], JsonObject], *, include_usage: bool) -> None:
        self._head = {name: head[name] for name in ("id", "created", "model")} | {"object": "chat.completion.chunk"}
        self._final = final
        self._include_usage = include_usage
        self._templates: dict[str, FrameTemplate] = {}
        self._template: FrameTemplate | None = None

    def frames(self, events: Sequence[AnswerEvent]) -> list[bytes]:
        found: list[bytes] = []
        for event in events:
            if type(event) is str:
                if self._template is not None:
                    found.append(self._template(0, event))
            elif type(event) is ItemBegun:
                self._template = self._template_of(event.kind)
            elif type(event) is Started:
                found.append(self._chunk({"role": "assistant", "content": ""}))
            elif type(event) is Ended:
                found += self._end(self._final(event))
        return found

    def _end(self, document: JsonObject) -> list[bytes]:
        if "error" in document:
            return [chunk(document)]
        choice, found = document["choices"][0], list[bytes]()
        if calls := choice["message"].get("tool_calls"):
            found.append(self._chunk({"tool_calls": [{"index": index, **call} for index, call in enumerate(calls)]}))
        found.append(self._chunk({}, choice["finish_reason"]))
        if self._include_usage:
            found.append(chunk({**self._head, "choices": [], "usage": document["usage"]}))
        return [*found, DONE]

    def _template_of(self, kind: ItemKind) -> FrameTemplate | None:
        name = FIELDS.get(kind)
        if name is not None and name not in self._templates:
            self._templates[name] = chunks_of({**self._head, **delta_of({name: ""})}, name)
        return None if name is None else self._templates[name]

    def _chunk(self, delta: JsonObject, reason: str | None = None) -> bytes:
        return chunk({**self._head, **delta_of(delta, reason)})


def stored_completion(document: JsonObject) -> AnswerStream:
    """Return the answer that a stored completion was, or the one that failed with a stored error."""
    events: list[AnswerEvent] = [Announced()]
    if "error" not in document:
        text = document["choices"][0]["message"]["content"]
        events += [Started(), *([ItemBegun(ItemKind.MESSAGE, "", 0), text] if text else [])]
    return AnswerStream.of([*events, Ended(TurnOutcome(TurnStatus.COMPLETED))])


def stored_encoder(document: JsonObject, start: int, *, include_usage: bool) -> ChunkEncoder:
    """Return the encoder of `stored_completion`, which is always read from its beginning."""
    del start
    head = {"id": None, "created": None, "model": None, **document}
    return ChunkEncoder(head, lambda _: document, include_usage=include_usage)


def reason_of(end: Ended) -> str:
    """Return the `finish_reason` of the message."""
    if end.calls:
        return "tool_calls"
    if end.outcome.status is TurnStatus.COMPLETED:
        return "stop"
    return "content_filter" if end.outcome.reason == "content_filter" else "length"


def counts(usage: JsonObject) -> JsonObject:
    """Return token counts under the names of this API."""
    found = {
        "prompt_tokens": usage["input_tokens"],
        "completion_tokens": usage["output_tokens"],
        "total_tokens": usage["total_tokens"],
    }
    return {**found, "estimated": True} if "estimated" in usage else found


def delta_of(delta: JsonObject, reason: str | None = None) -> JsonObject:
    """Return the fields of a chunk that adds `delta` to the message."""
    return {"choices": [{"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}]}


def call_entry(call: AskedCall) -> JsonObject:
    """Return a call in the form of a chat message."""
    return {
        "id": call.call_id,
        "type": "function",
        "function": {"name": call.name, "arguments": call.arguments},
    }


def stored_items(answer: AnswerStream) -> StoredAnswer:
    """Return what is stored of a completion: its message, as items of a response."""
    text, calls = ("", ()) if answer.end is None else (answer.end.text, answer.end.calls)
    part = {"type": "output_text", "text": text, "annotations": []}
    said: list[JsonObject] = [{"type": "message", "role": "assistant", "content": [part]}] if text or not calls else []
    called: list[JsonObject] = [
        {"type": "function_call", "call_id": call.call_id, "name": call.name, "arguments": call.arguments}
        for call in calls
    ]
    return StoredAnswer([*said, *called])
