"""The sink of chat completions: writes one message, whole or in chunks. Only the conversation is stored, no
completion."""

import asyncio
from collections.abc import Callable, Sequence

from ostler.gateway.http.errors import envelope, of_outcome
from ostler.gateway.http.feed import Feed
from ostler.gateway.http.frames import FrameTemplate, chunk, chunks_of
from ostler.gateway.http.idempotency import is_answer
from ostler.gateway.model.outcome import TurnOutcome, TurnStatus
from ostler.gateway.model.records import IdempotencyRecord, ResponseRecord
from ostler.gateway.turns.answer_sink import StoredAnswer
from ostler.gateway.turns.pending_calls import AskedCall
from ostler.gateway.turns.usage import usage_of
from ostler.pool.events import Text, Thought, TurnEvent, Usage
from ostler.wire.json import JsonObject

DONE = b"data: [DONE]\n\n"


class ChatWriter:
    """Writes one chat completion, as a document or as a stream."""

    def __init__(
        self,
        completion_id: str,
        created: int,
        model: str,
        *,
        session_id: str,
        read: int,
        feed: Feed | None,
        include_usage: bool,
        said: Callable[[str], None],
        answer: Callable[[int, JsonObject], IdempotencyRecord] | None = None,
        ended: Callable[[], None] | None = None,
    ) -> None:
        """`answer` makes the record for a repeated request from a status and a body; `ended` is called after the
        end."""
        self.id = completion_id
        self.session_id = session_id
        self.feed = feed
        self.done = asyncio.Event()
        self.outcome: TurnOutcome | None = None
        self._head: JsonObject = {"id": completion_id, "created": created, "model": model}
        self._read = read
        self._include_usage = include_usage
        self._said = said
        self._answer = answer
        self._ended = ended
        self._agent_spoke = False
        self._texts: list[str] = []
        self._calls: list[JsonObject] = []
        self._usage: Usage | None = None
        self._templates: dict[str, FrameTemplate] = {}
        """Templates by the field of the message that the text belongs to."""

    def begin(self) -> ResponseRecord | None:
        """Return None: only the conversation of a completion is stored."""
        return None

    def started(self) -> None:
        """Send the first chunk: the question is durable and is being answered."""
        self._chunk({"role": "assistant", "content": ""})

    def take(self, event: TurnEvent) -> None:
        """Write one event of the agent as a chunk."""
        self._agent_spoke = True
        match event:
            case Text(text=text):
                self._texts.append(text)
                self._append_delta("content", text)
            case Thought(text=text):
                self._append_delta("reasoning_content", text)
            case Usage():
                self._usage = event
            case _:
                return

    def close(self, outcome: TurnOutcome, calls: Sequence[AskedCall]) -> StoredAnswer:
        """Finish the message; return its items, and the record for a repeated request."""
        self.outcome = outcome
        self._calls = [call_entry(call) for call in calls]
        return StoredAnswer(items_of("".join(self._texts), calls), answer=self._kept(outcome))

    def publish(self) -> None:
        """Write the end of the stream, or the error, and wake the route."""
        outcome = self.outcome or TurnOutcome(TurnStatus.FAILED)
        if outcome.status is TurnStatus.FAILED:
            self._write(chunk(envelope(of_outcome(outcome))))
        else:
            if outcome.status is TurnStatus.COMPLETED and not self._calls:
                self._said("".join(self._texts))
            self._finish()
        if self.feed is not None:
            self.feed.close()
        self.done.set()
        if self._ended is not None:
            self._ended()

    def document(self) -> JsonObject:
        """Return the completion as a document."""
        message: JsonObject = {"role": "assistant", "content": "".join(self._texts) or None, "refusal": None}
        if self._calls:
            message["tool_calls"] = self._calls
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": self._reason()}
        return {**self._head, "object": "chat.completion", "choices": [choice], "usage": self._counts()}

    def _kept(self, outcome: TurnOutcome) -> IdempotencyRecord | None:
        if self._answer is None or not is_answer(outcome, agent_spoke=self._agent_spoke):
            return None
        if outcome.status is not TurnStatus.FAILED:
            return self._answer(200, self.document())
        error = of_outcome(outcome)
        return self._answer(error.status, envelope(error))

    def _finish(self) -> None:
        if self._calls:
            self._chunk({"tool_calls": [{"index": index, **call} for index, call in enumerate(self._calls)]})
        self._chunk({}, self._reason())
        if self._include_usage:
            self._frame({"choices": [], "usage": self._counts()})
        self._write(DONE)

    def _reason(self) -> str:
        if self._calls:
            return "tool_calls"
        if self.outcome is None or self.outcome.status is TurnStatus.COMPLETED:
            return "stop"
        return "content_filter" if self.outcome.reason == "content_filter" else "length"

    def _counts(self) -> JsonObject:
        reported = self.outcome.usage if self.outcome and self.outcome.usage else self._usage
        usage = usage_of(reported, self._read, sum(map(len, self._texts)))
        counts = {
            "prompt_tokens": usage["input_tokens"],
            "completion_tokens": usage["output_tokens"],
            "total_tokens": usage["total_tokens"],
        }
        return {**counts, "estimated": True} if "estimated" in usage else counts

    def _append_delta(self, name: str, piece: str) -> None:
        if self.feed is None:
            return
        if name not in self._templates:
            self._templates[name] = chunks_of(self._whole(delta_of({name: ""})), name)
        self.feed.append_delta(self._templates[name], piece)

    def _chunk(self, delta: JsonObject, reason: str | None = None) -> None:
        self._frame(delta_of(delta, reason))

    def _frame(self, fields: JsonObject) -> None:
        if self.feed is not None:
            self.feed.write(chunk(self._whole(fields)))

    def _whole(self, fields: JsonObject) -> JsonObject:
        return {**self._head, "object": "chat.completion.chunk", **fields}

    def _write(self, frame: bytes) -> None:
        if self.feed is not None:
            self.feed.write(frame)


def replayed(status: int, document: JsonObject, *, include_usage: bool) -> Feed:
    """Return the stream of a stored completion: the same text in fewer chunks."""
    feed = Feed()
    if status != 200:
        feed.write(chunk(document))
        feed.close()
        return feed
    head = {name: document[name] for name in ("id", "created", "model")} | {"object": "chat.completion.chunk"}
    choice = document["choices"][0]
    message, calls = choice["message"], choice["message"].get("tool_calls", ())
    delta = {"role": "assistant", "content": message["content"] or ""}
    if calls:
        delta["tool_calls"] = [{"index": index, **call} for index, call in enumerate(calls)]
    for part, reason in ((delta, None), ({}, choice["finish_reason"])):
        feed.write(chunk({**head, **delta_of(part, reason)}))
    if include_usage:
        feed.write(chunk({**head, "choices": [], "usage": document["usage"]}))
    feed.write(DONE)
    feed.close()
    return feed


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


def items_of(text: str, calls: Sequence[AskedCall]) -> list[JsonObject]:
    """Return the message as it is stored: the same items as those of a response."""
    part = {"type": "output_text", "text": text, "annotations": []}
    said: list[JsonObject] = [{"type": "message", "role": "assistant", "content": [part]}] if text or not calls else []
    called: list[JsonObject] = [
        {"type": "function_call", "call_id": call.call_id, "name": call.name, "arguments": call.arguments}
        for call in calls
    ]
    return [*said, *called]
