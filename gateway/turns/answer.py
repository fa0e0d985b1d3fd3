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
- What the agent does itself (its tools, its plan) is one ACTIVITY item when it is over: a client shows it and cannot
  mistake it for a call that it should execute. A permission request that the client is to answer is an item of its own;
  the decision on any request is reported.
- An agent also announces calls of the client's own functions. That announcement is dropped, because the call itself
  follows as an item.
- Writing never waits, and never raises because of a reader.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Protocol, Self, TypeAlias

import orjson

from ostler.gateway.model.outcome import TurnOutcome, TurnStatus
from ostler.gateway.model.records import IdempotencyRecord, ResponseRecord
from ostler.gateway.turns.host_events import HistoryCut, PermissionPending, SeatToolsLost
from ostler.gateway.turns.pending_calls import AskedCall
from ostler.pool.agent.turn import bulk, weigh
from ostler.pool.events import (
    MessageDropped,
    PermissionAnswered,
    PermissionAsked,
    Plan,
    Text,
    Thought,
    ToolEnded,
    ToolStarted,
    ToolUpdated,
    TurnEvent,
    Usage,
)
from ostler.wire.json import JsonObject

ASKER = "agent"
"""The `server_label` of a permission request: the agent itself asks, no server outside."""
AT_ONCE = 512
"""The most events that a reader takes at once: encoding all that a slow reader has missed would block every other
client."""
OPEN_KEPT = 256
"""The most calls that the agent has begun and not ended. For one more, the oldest is reported as it is. All open calls
are reported in one step when the answer ends: 300,000 of them blocked every client for ten seconds."""
SHOWN = 2000
"""The most characters of a tool's arguments or result that are shown."""
EVENT = 256
"""Approximate bytes that an event of the agent takes besides its text, for its frame and its piece."""
COPIES = 4
"""How often a text is held when its answer ends: as pieces, in its item, in what is stored, in what is sent."""
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


class AnswerForm(Protocol):
    """What a surface stores of an answer."""

    def opening(self) -> ResponseRecord | None:
        """Return the record to store with the question."""

    def stored(self, answer: "AnswerStream", end: Ended) -> StoredAnswer:
        """Return what to store with the end. Called again with a failure if that could not be stored."""


class Unread:
    """The form of an answer that no client reads: only its text is stored."""

    def opening(self) -> ResponseRecord | None:
        return None

    def stored(self, answer: "AnswerStream", end: Ended) -> StoredAnswer:
        del answer, end
        return StoredAnswer()


class AnswerStream:
    """The events of one answer. Its turn writes it: `start` is called after what `begin` returned is durable, `publish`
    after what `close` returned is. Nothing is acknowledged before it is durable."""

    def __init__(self, answer_id: str, form: AnswerForm | None = None, functions: Sequence[str] = ()) -> None:
        self.id = answer_id
        self.form: AnswerForm = form or Unread()
        self.items: list[JsonObject] = []
        self.size = 0
        """Approximate memory, in bytes."""
        self.count = 0
        """Approximate number of items. An item takes a hundred times the memory of a piece of text."""
        self.started = self.closed = self.agent_spoke = False
        self.end: Ended | None = None
        """Set by `close`; readers get it by `publish`."""
        self.on_end: list[Callable[[Ended], None]] = []
        """Called by `publish`, in this order."""
        self.keep: Callable[[Ended], IdempotencyRecord | None] | None = None
        """Makes the record for a repeated request."""
        self._events: list[AnswerEvent] = []
        self._readers: set[Callable[[], None]] = set()
        self._usage: Usage | None = None
        self._own = named(functions)
        self._open: ItemBegun | None = None
        """The item that grows; it is always the last one."""
        self._first_piece = 0
        self._ids = 0
        self._tools: dict[str, ToolStarted] = {}
        self._asked: dict[str, str] = {}
        """Titles of permission requests by their id."""

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
        return "".join(texts_of(self._events))

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
        """About how many bytes the events hold."""
        return PIECE * len(self._events) + written(self._events) + bulk(self.items)

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

    def begin(self) -> ResponseRecord | None:
        """The turn starts. The returned record is stored with the question."""
        return self.form.opening()

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
        self._note(event)

    def close(self, outcome: TurnOutcome, calls: Sequence[AskedCall], now: float) -> StoredAnswer:
        """Complete the answer; `calls` now wait for the client. Return what to store. Called again, with a failure, if
        that could not be stored."""
        for call in calls:
            self._call(call)
        self._end_item("completed" if outcome.status is TurnStatus.COMPLETED else "incomplete")
        for started in tuple(self._tools.values()):
            self._end_tool(ToolEnded(started.id, started.status))
        length, usage = written(self._events), outcome.usage or self._usage
        end = Ended(outcome, self.items, self.text, length, usage, int(now), tuple(calls), self.agent_spoke)
        self.end = end
        kept = self.form.stored(self, end)
        return kept if self.keep is None else replace(kept, answer=self.keep(end))

    def publish(self) -> None:
        """The end is durable: tell the readers and those who wait for it."""
        if self.end is None:
            raise RuntimeError("an answer is published before it is closed")
        self._announce()
        self.closed = True
        self._add(self.end)
        for tell in self.on_end:
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
            item = {**reasoning(begun.id), "summary": [{"type": "summary_text", "text": text}], **facts}
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

    # --- what the agent does itself ---

    def _note(self, event: TurnEvent) -> None:
        """Add an event that is no piece of text."""
        match event:
            case ToolStarted():
                self._start_tool(event)
            case ToolUpdated():
                self._update_tool(event)
            case ToolEnded():
                self._end_tool(event)
            case Plan(steps=steps):
                lines = "\n".join(f"- [{'x' if step.status == 'completed' else ' '}] {step.text}" for step in steps)
                self._tell(f"Plan:\n{lines}", {"kind": "plan"})
            case PermissionAsked(id=asked, title=title):
                self._asked[asked] = title
            case PermissionAnswered():
                self._tell_decision(event)
            case PermissionPending():
                self._add(event)
            case Usage():
                self._usage = event
            case _:
                self._tell_notice(event)

    def _tell_notice(self, event: TurnEvent) -> None:
        """Report what the agent was not told or had lost, or a message that was dropped. Any other event is not for
        clients."""
        match event:
            case MessageDropped(why=why):
                self._tell(f"A message of the agent was dropped: {why}", {"kind": "message_dropped"})
            case HistoryCut(left_out=left_out):
                text = f"The conversation is too long for the agent: its {left_out} oldest entries were left out."
                self._tell(text, {"kind": "history_cut", "left_out": left_out})
            case SeatToolsLost():
                text = "The agent had lost its tools; the conversation goes on in a session of it that has them."
                self._tell(text, {"kind": "tools_lost"})

    def _start_tool(self, event: ToolStarted) -> None:
        if self._own is None or self._own.search(event.title) is None:
            # Shortened here: otherwise a call that never ends would keep megabytes for the 2000 characters that are
            # shown.
            self._tools[event.id] = replace(event, arguments=cut(event.arguments))
            if len(self._tools) > OPEN_KEPT:
                oldest = next(iter(self._tools.values()))
                self._end_tool(ToolEnded(oldest.id, oldest.status))

    def _update_tool(self, event: ToolUpdated) -> None:
        started = self._tools.get(event.id)
        if started is not None:
            started.title = event.title or started.title
            started.arguments = started.arguments if event.arguments is None else cut(event.arguments)
            started.status = event.status or started.status

    def _end_tool(self, event: ToolEnded) -> None:
        started = self._tools.pop(event.id, None)
        if started is None:
            return
        facts: JsonObject = {"kind": "tool_call", "title": started.title, "status": event.status.value}
        for name, value in (("arguments", started.arguments), ("output", event.output)):
            if value is not None:
                facts[name] = shown(value)
        self._tell(f"Tool {started.title}: {event.status.value}", facts)

    def _tell_decision(self, event: PermissionAnswered) -> None:
        title = self._asked.pop(event.id, "")
        word = "cancelled" if event.option is None else event.option.name
        facts: JsonObject = {"kind": "permission", "title": title, "decision": word, "by": event.by}
        self._tell(f"Permission for {title}: {word} ({event.by})", facts)

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


def written(events: Sequence[AnswerEvent]) -> int:
    """Return the characters of all pieces."""
    return sum(len(event) for event in events if type(event) is str)


def message(item_id: str, status: str = "in_progress", content: Sequence[JsonObject] = ()) -> JsonObject:
    """Return a message of the assistant; without more arguments one that begins."""
    return {"type": "message", "id": item_id, "role": "assistant", "status": status, "content": list(content)}


def reasoning(item_id: str) -> JsonObject:
    """Return an empty reasoning item: a thought or an activity."""
    return {"type": "reasoning", "id": item_id, "summary": []}


def text_part(text: str) -> JsonObject:
    """Return a text part of an answer."""
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def named(functions: Sequence[str]) -> re.Pattern[str] | None:
    """Return a pattern that finds one of these functions in an agent's name for a tool. None if there are no functions.

    A name matches alone, or behind the name of our server as agents write it (`mcp__ostler__NAME`, `ostler_NAME`, `NAME
    (ostler MCP Server)`); never as a part of a longer name.
    """
    if not functions:
        return None
    return re.compile(rf"(?:(?<![\w-])|ostler_+)(?:{'|'.join(map(re.escape, functions))})(?![\w-])")


def cut(arguments: Any) -> Any:
    """Return what to keep of a call's arguments: all if they are a short text, else their shortened text."""
    short = arguments is None or (isinstance(arguments, str) and len(arguments) <= SHOWN)
    return arguments if short else shown(arguments)


def shown(value: Any) -> str:
    """Return a JSON value as text for a person, at most `SHOWN` characters long."""
    try:
        text = value if isinstance(value, str) else orjson.dumps(value, default=str).decode()
    except orjson.JSONEncodeError as error:  # An agent may nest values deeper than orjson can write.
        text = f"({error})"
    return text if len(text) <= SHOWN else text[:SHOWN] + "..."
