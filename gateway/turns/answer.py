"""One answer: what a turn gives to one request, written once as typed events and read by any number of encoders.

Rules:
- Events come in this order: `Announced`, `Queued` for a receipt, `Started`, the items, `Ended`. An item is begun,
  filled with pieces and done before the next one begins; its `index` is its place in the output.
- A piece of text is a bare `str` behind the `ItemBegun` that it belongs to. The text of an answer, the sizes of its
  pieces and its length follow from the list; they are counted nowhere else.
- The list is independent of any API. To answer in one more dialect, write an encoder, a pure translation of these
  events; to answer over one more transport, read the list as `http/streaming.py` does, with an encoder that exists. A
  replay is the same encoder over a list that was made again from what is stored.
- No event here can be made by a codec: an agent's words enter only as pieces and as values inside items.
- What the agent does itself is one ACTIVITY item when it is over: a client shows it and cannot mistake it for a call
  that it should execute. A permission request that the client is to answer is an item of its own.
- Writing never waits, and never raises because of a reader.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Self, TypeAlias

from ostler.gateway.model.outcome import TurnOutcome, TurnStatus
from ostler.gateway.model.records import IdempotencyRecord, ResponseRecord
from ostler.gateway.turns.activities import Activities
from ostler.gateway.turns.host_events import PermissionPending
from ostler.gateway.turns.pending_calls import AskedCall
from ostler.pool.agent.turn import bulk, weigh
from ostler.pool.events import (
    MessageDropped,
    PermissionAsked,
    Plan,
    Text,
    Thought,
    ToolStarted,
    TurnEvent,
    Usage,
)
from ostler.wire.json import JsonObject

ASKER = "agent"
"""The `server_label` of a permission request: the agent itself asks, no server outside."""
AT_ONCE = 512
"""The most events that a reader takes at once: encoding all that a slow reader has missed would block every other
client."""
EVENT = 256
"""Approximate bytes that an event of the agent takes besides its text, for its frame and its piece."""
COPIES = 4
"""How often a text is held when its answer ends: as pieces, in its item, in what is stored, in what is sent."""
CHARACTERS_PER_TOKEN = 4
PIECE = 72
"""Bytes that a piece takes besides its characters."""
COUNTED = frozenset({ToolStarted, Plan, PermissionAsked, MessageDropped})
"""Events that count as an item, besides the runs of text and thought."""


class ItemKind(StrEnum):
    """What an item with text is."""

    MESSAGE = "message"
    THOUGHT = "thought"
    ACTIVITY = "activity"


@dataclass(frozen=True, slots=True)
class Announced:
    """The first event: the answer exists."""


@dataclass(frozen=True, slots=True)
class Queued:
    """Its client has a receipt; the turn waits for its place."""


@dataclass(frozen=True, slots=True)
class Started:
    """The question is durable and is being answered."""


@dataclass(frozen=True, slots=True)
class ItemBegun:
    """An item begins; the pieces that follow are its text."""

    kind: ItemKind
    id: str
    index: int


@dataclass(frozen=True, slots=True)
class ItemDone:
    """The item that began last is complete."""

    index: int
    item: JsonObject


@dataclass(frozen=True, slots=True)
class CallAdded:
    """A complete item without pieces: a function call or a permission request for the client."""

    index: int
    item: JsonObject


@dataclass(frozen=True, slots=True)
class Ended:
    """The end of the answer, which contains all of it."""

    outcome: TurnOutcome
    items: Sequence[JsonObject] = ()
    text: str = ""
    """The text of all messages."""
    written: int = 0
    """Characters of all items."""
    usage: Usage | None = None
    """What the agent reported."""
    at: int = 0
    """When it ended, in seconds since the epoch."""
    calls: Sequence[AskedCall] = ()
    """What the client is to answer now."""
    agent_spoke: bool = False
    """Whether the agent sent any event."""

    @property
    def said(self) -> bool:
        """Whether the agent has ended its turn, and waits for nothing."""
        return self.outcome.status is TurnStatus.COMPLETED and not self.calls

    @property
    def refused(self) -> bool:
        """Whether the turn failed before the agent sent any event."""
        return self.outcome.status is TurnStatus.FAILED and not self.agent_spoke

    def counts(self, read: int, length: int | None = None) -> JsonObject:
        """Return the token counts. A count that the agent did not report is estimated from characters: `read`, and
        those of all items unless `length` is given. The result then says `"estimated": true`."""
        usage = self.usage
        if usage is not None and usage.input_tokens is not None and usage.output_tokens is not None:
            given, made, told = usage.input_tokens, usage.output_tokens, True
        else:
            given, made, told = estimated(read), estimated(self.written if length is None else length), False
        counts: JsonObject = {
            "input_tokens": given,
            "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
            "output_tokens": made,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": given + made,
        }
        return counts if told else {**counts, "estimated": True}


AnswerEvent: TypeAlias = (
    str | Announced | Queued | Started | ItemBegun | ItemDone | CallAdded | PermissionPending | Ended
)


@dataclass(frozen=True, slots=True)
class StoredAnswer:
    """What to store at the end of an answer, with the assistant's message."""

    items: Sequence[JsonObject] = ()
    response: ResponseRecord | None = None
    slug: str | None = None
    answer: IdempotencyRecord | None = None
    """The answer that a repeated request gets."""


def unread(answer: "AnswerStream") -> StoredAnswer:
    """Return what is stored of an answer that no client reads, besides its text: nothing."""
    del answer
    return StoredAnswer()


def stored_items(answer: "AnswerStream") -> StoredAnswer:
    """Return what a chat surface stores of an answer: its items, as a message of the conversation."""
    return StoredAnswer(tuple(answer.items))


class AnswerStream:
    """The events of one answer. Its turn writes it: `start` is called after `opening` is durable, `publish` after
    what `close` returned is. Nothing is acknowledged before it is durable."""

    def __init__(
        self,
        answer_id: str,
        stored: Callable[["AnswerStream"], StoredAnswer] = unread,
        *,
        opening: ResponseRecord | None = None,
        functions: Sequence[str] = (),
    ) -> None:
        """`stored` returns what to store with the end, `opening` is stored with the question; `functions` are those of
        the client."""
        self.id = answer_id
        self.opening = opening
        self._stored = stored
        self.items: list[JsonObject] = []
        self.size = 0
        """Approximate memory, in bytes."""
        self.count = 0
        """Approximate number of items. An item takes a hundred times the memory of a piece of text."""
        self.started = self.closed = self.agent_spoke = False
        self.end: Ended | None = None
        """Set by `close`; readers get it by `publish`."""
        self.on_end: list[Callable[[Ended], None]] = []
        """Called by `publish`, in this order. An answer that is kept after its end holds on to nothing else."""
        self.keep: Callable[[Ended], IdempotencyRecord | None] | None = None
        """Makes the record for a repeated request."""
        self._events: list[AnswerEvent] = []
        self._readers: set[Callable[[], None]] = set()
        self._usage: Usage | None = None
        self._activities = Activities(functions)
        self._open: ItemBegun | None = None
        """The item that grows; it is always the last one."""
        self._first_piece = 0
        self._ids = 0

    @classmethod
    def of(cls, events: Sequence[AnswerEvent]) -> Self:
        """Return a complete answer with these events."""
        answer = cls("")
        answer._events, answer.closed = list(events), True
        return answer

    # --- reading ---

    @property
    def text(self) -> str:
        """The text of all messages so far."""
        return "".join(texts_of(self._events)) if self.end is None else self.end.text

    @property
    def sizes(self) -> list[list[int]]:
        """The lengths of the pieces of each item, in characters."""
        found: list[list[int]] = []
        for event in self._events:
            if type(event) is str:
                found[-1].append(len(event))
            elif isinstance(event, ItemBegun | CallAdded):
                found.append([])
        return found

    @property
    def weight(self) -> int:
        """About how many bytes the events hold: the text of an item is in its pieces too."""
        return PIECE * len(self._events) + 2 * bulk(self.items)

    def since(self, place: int) -> Sequence[AnswerEvent]:
        """Return the next events from this position, at most `AT_ONCE`."""
        return self._events[place : place + AT_ONCE]

    def join(self, tell: Callable[[], None]) -> None:
        """Call this for every new event, and at the end."""
        self._readers.add(tell)

    def leave(self, tell: Callable[[], None]) -> None:
        """Stop calling this. Idempotent."""
        self._readers.discard(tell)

    # --- the life of an answer ---

    def queue(self) -> None:
        """Its client gets a receipt."""
        self._announce()
        self._add(Queued())

    def start(self) -> None:
        """The question is durable."""
        self._announce()
        self.started = True
        self._add(Started())

    def take(self, event: TurnEvent) -> None:
        """Add one event of the agent, or of the gateway among them."""
        self.agent_spoke = True
        kind = type(event)
        if kind is Text or kind is Thought:
            text: str = event.text  # type: ignore[union-attr] # narrowed by kind
            self.size += EVENT + COPIES * len(text)
            self._say(ItemKind.MESSAGE if kind is Text else ItemKind.THOUGHT, text)
            return
        self.size += EVENT + (weigh(event) if kind is ToolStarted else 0)
        self.count += kind in COUNTED
        if isinstance(event, PermissionPending):
            self._add(event)
        elif isinstance(event, Usage):
            self._usage = event
        else:
            for text, facts in self._activities.take(event):
                self._tell(text, facts)

    def close(self, outcome: TurnOutcome, calls: Sequence[AskedCall], now: float) -> StoredAnswer:
        """Complete the answer; `calls` now wait for the client. Return what to store. Called again, with a failure, if
        that could not be stored."""
        for call in calls:
            self._call(call)
        self._end_item("completed" if outcome.status is TurnStatus.COMPLETED else "incomplete")
        for text, facts in self._activities.end():
            self._tell(text, facts)
        said, usage = [*map(text_in, self.items)], outcome.usage or self._usage
        text = "".join(text for text, item in zip(said, self.items, strict=True) if item["type"] == "message")
        length = sum(map(len, said))
        end = self.end = Ended(outcome, self.items, text, length, usage, int(now), tuple(calls), self.agent_spoke)
        kept = self._stored(self)
        return kept if self.keep is None else replace(kept, answer=self.keep(end))

    def publish(self) -> None:
        """The end is durable: tell the readers and those who wait for it."""
        if self.end is None:
            raise RuntimeError("an answer is published before it is closed")
        self._announce()
        self.closed = True
        self._add(self.end)
        ends, self.on_end, self._stored, self.keep = self.on_end, [], unread, None
        for tell in ends:
            tell(self.end)

    # --- items ---

    def _announce(self) -> None:
        if not self._events:
            self._add(Announced())

    def _add(self, event: AnswerEvent) -> None:
        self._events.append(event)
        for tell in self._readers:
            tell()

    def _say(self, kind: ItemKind, text: str) -> None:
        if self._open is None or self._open.kind is not kind:
            self._begin_item(kind)
            self.count += 1
        self._events.append(text)
        for tell in self._readers:
            tell()

    def _begin_item(self, kind: ItemKind) -> None:
        self._end_item()
        begun = self._open = ItemBegun(kind, self._new_id("msg" if kind is ItemKind.MESSAGE else "rs"), len(self.items))
        self._add(begun)
        self._first_piece = len(self._events)

    def _end_item(self, status: str = "completed", **facts: JsonObject) -> None:
        """End the item that grows, if there is one."""
        begun, self._open = self._open, None
        if begun is None:
            return
        text = "".join(event for event in self._events[self._first_piece :] if type(event) is str)
        if begun.kind is ItemKind.MESSAGE:
            item = message(begun.id, status, [text_part(text)])
        else:
            item = {**reasoning(begun.id), "summary": [summary_part(text)], **facts}
        self.items.append(item)
        self._add(ItemDone(begun.index, item))

    def _call(self, call: AskedCall) -> None:
        """Add a call that the client is to answer."""
        self._end_item()
        names: JsonObject = {"name": call.name, "arguments": call.arguments}
        if call.permission is None:
            ids = {"type": "function_call", "id": self._new_id("fc"), "call_id": call.call_id}
            item = {**ids, **names, "status": "completed"}
        else:
            item = {"type": "mcp_approval_request", "id": call.call_id, **names, "server_label": ASKER}
        self.items.append(item)
        self._add(CallAdded(len(self.items) - 1, item))

    def _new_id(self, prefix: str) -> str:
        """Return a new item id. It contains the answer's id, so that a reference to an item can be resolved."""
        self._ids += 1
        return f"{prefix}_{self.id.partition('_')[2]}{self._ids:04x}"

    def _tell(self, text: str, activity: JsonObject) -> None:
        """Add a complete ACTIVITY item."""
        self._begin_item(ItemKind.ACTIVITY)
        self._add(text)
        self._end_item(activity=activity)


def texts_of(events: Sequence[AnswerEvent]) -> Iterator[str]:
    """Yield the pieces of all messages."""
    spoken = False
    for event in events:
        if type(event) is str:
            if spoken:
                yield event
        elif type(event) is ItemBegun:
            spoken = event.kind is ItemKind.MESSAGE


def text_in(item: JsonObject) -> str:
    """Return the text of a complete item; "" if it has none."""
    parts = item.get("content") or item.get("summary")
    return str(parts[0]["text"]) if parts else ""


def message(item_id: str, status: str = "in_progress", content: Sequence[JsonObject] = ()) -> JsonObject:
    """Return a message of the assistant; without more arguments one that begins."""
    return {"type": "message", "id": item_id, "role": "assistant", "status": status, "content": list(content)}


def reasoning(item_id: str) -> JsonObject:
    """Return an empty reasoning item: a thought or an activity."""
    return {"type": "reasoning", "id": item_id, "summary": []}


def summary_part(text: str) -> JsonObject:
    """Return the text of a reasoning item."""
    return {"type": "summary_text", "text": text}


def text_part(text: str) -> JsonObject:
    """Return a text part of an answer."""
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def estimated(characters: int) -> int:
    """Return the approximate number of tokens, rounded up."""
    return -(-characters // CHARACTERS_PER_TOKEN)
