"""Turns an agent's events into output items and the streaming events that build them. One event in, frames out.

Rules:
- Every item is added, filled and done, in this order; its `output_index` is its place in the output.
- Text and thoughts stream. What the agent does itself (its tools, its plan) is reported as a reasoning item when it is
  over: a client shows it and cannot mistake it for a call that it should execute.
- A permission request that the client is to answer is an item of its own; the decision on any request is reported.
- An agent also announces calls of the client's own functions. That announcement is dropped, because the call itself
  follows as a `function_call` item.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import orjson

from ostler.gateway.turns.host_events import HistoryCut, SeatToolsLost
from ostler.gateway.turns.pending_calls import AskedCall
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

Emit = Callable[[str, JsonObject], None]
BeginItem = Callable[[str, JsonObject], Callable[[str], None]]
"""Begins a text item: takes the event name of its deltas and their fixed fields, returns the function that takes the
pieces."""
ASKER = "agent"
"""The `server_label` of a permission request: the agent itself asks, no server outside."""
PIECES_KEPT = 20_000
OPEN_KEPT = 256
"""The most calls that the agent has begun and not ended. For one more, the oldest is reported as it is. All open calls
are reported in one step when the answer ends: 300,000 of them blocked every client for ten seconds."""
SHOWN = 2000
"""The most characters of a tool's arguments or result that are shown."""


@dataclass(slots=True)
class Growing:
    """The item that streams now; it is always the last one."""

    item: JsonObject
    say: Callable[[str], None]
    pieces: list[str] = field(default_factory=list)


class OutputBuilder:
    """The output of one response while it grows."""

    def __init__(
        self, emit: Emit, begin: BeginItem, new_id: Callable[[str], str], own_functions: Sequence[str]
    ) -> None:
        self.items: list[JsonObject] = []
        self.usage: Usage | None = None
        self.written = 0
        """Characters of text and thought so far."""
        self._emit = emit
        self._begin_text = begin
        self._new_id = new_id
        self._own = named(own_functions)
        self._open: Growing | None = None
        self.sizes: list[list[int]] | None = []
        """The lengths of the pieces of each item, in characters; None once there are too many to keep."""
        self._cut = 0
        self._tools: dict[str, ToolStarted] = {}
        self._asked: dict[str, str] = {}
        """Titles of permission requests by their id."""

    @property
    def text(self) -> str:
        """The text of all assistant messages."""
        messages = [item for item in self.items if item["type"] == "message"]
        return "".join(str(part["text"]) for item in messages for part in item["content"])

    def take(self, event: TurnEvent) -> None:
        """Add one event of the agent to the output."""
        match event:
            case Text(text=text):
                self._stream("message", text)
            case Thought(text=text):
                self._stream("reasoning", text)
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
            case Usage():
                self.usage = event
            case _:
                self._tell_notice(event)

    def call(self, call: AskedCall) -> None:
        """Add a call that the client is to answer."""
        self.close()
        if call.permission is None:
            self._call_function(call)
        else:
            self._ask(call)

    def _ask(self, call: AskedCall) -> None:
        """Add a permission request that the client is to answer."""
        index = len(self.items)
        item: JsonObject = {
            "type": "mcp_approval_request",
            "id": call.call_id,
            "name": call.name,
            "arguments": call.arguments,
            "server_label": ASKER,
        }
        self._add(item)
        self._emit("response.output_item.added", {"output_index": index, "item": item})
        self._emit("response.output_item.done", {"output_index": index, "item": item})

    def _call_function(self, call: AskedCall) -> None:
        index = len(self.items)
        item: JsonObject = {
            "type": "function_call",
            "id": self._new_id("fc"),
            "call_id": call.call_id,
            "name": call.name,
            "arguments": "",
            "status": "in_progress",
        }
        self._add(item)
        place = {"item_id": item["id"], "output_index": index}
        self._emit("response.output_item.added", {"output_index": index, "item": dict(item)})
        self._emit("response.function_call_arguments.delta", {**place, "delta": call.arguments})
        item.update(arguments=call.arguments, status="completed")
        done = {**place, "name": call.name, "arguments": call.arguments}
        self._emit("response.function_call_arguments.done", done)
        self._emit("response.output_item.done", {"output_index": index, "item": item})

    def finish(self, calls: Sequence[AskedCall], *, complete: bool) -> None:
        """End the output: add the calls for the client, close the open item, and report tools that never ended as they
        are."""
        for call in calls:
            self.call(call)
        self.close("completed" if complete else "incomplete")
        for started in tuple(self._tools.values()):
            self._end_tool(ToolEnded(started.id, started.status))

    def close(self, status: str = "completed") -> None:
        """End the item that streams."""
        growing, self._open = self._open, None
        if growing is None:
            return
        self._note(growing.pieces)
        item, text, index = growing.item, "".join(growing.pieces), len(self.items) - 1
        if item["type"] == "message":
            self._close_message(item, index, text, status)
        else:
            self._close_reasoning(item, index, text)

    # --- what streams ---

    def _stream(self, kind: str, text: str) -> None:
        growing = self._open
        if growing is None or growing.item["type"] != kind:
            self.close()
            growing = self._begin(kind)
        growing.pieces.append(text)
        self.written += len(text)
        growing.say(text)

    def _note(self, pieces: Sequence[str]) -> None:
        """Keep the piece lengths of an item that ended, for replay; drop all of them beyond `PIECES_KEPT`."""
        self._cut += len(pieces)
        if self._cut > PIECES_KEPT:
            self.sizes = None
        elif self.sizes is not None:
            self.sizes[-1] = [len(piece) for piece in pieces]

    def _add(self, item: JsonObject) -> None:
        self.items.append(item)
        if self.sizes is not None:
            self.sizes.append([])

    def _begin(self, kind: str) -> Growing:
        index = len(self.items)
        item = message(self._new_id("msg")) if kind == "message" else reasoning(self._new_id("rs"))
        self._add(item)
        self._emit("response.output_item.added", {"output_index": index, "item": {**item}})
        place: JsonObject = {"item_id": item["id"], "output_index": index}
        if kind == "message":
            place["content_index"] = 0
            self._emit("response.content_part.added", {**place, "part": text_part("")})
            say = self._begin_text("response.output_text.delta", {**place, "logprobs": []})
        else:
            place["summary_index"] = 0
            self._emit("response.reasoning_summary_part.added", {**place, "part": {"type": "summary_text", "text": ""}})
            say = self._begin_text("response.reasoning_summary_text.delta", place)
        self._open = Growing(item, say)
        return self._open

    def _close_message(self, item: JsonObject, index: int, text: str, status: str) -> None:
        place = {"item_id": item["id"], "output_index": index, "content_index": 0}
        part = text_part(text)
        item.update(status=status, content=[part])
        self._emit("response.output_text.done", {**place, "text": text, "logprobs": []})
        self._emit("response.content_part.done", {**place, "part": part})
        self._emit("response.output_item.done", {"output_index": index, "item": item})

    def _close_reasoning(self, item: JsonObject, index: int, text: str) -> None:
        place = {"item_id": item["id"], "output_index": index, "summary_index": 0}
        part = {"type": "summary_text", "text": text}
        item["summary"] = [part]
        self._emit("response.reasoning_summary_text.done", {**place, "text": text})
        self._emit("response.reasoning_summary_part.done", {**place, "part": part})
        self._emit("response.output_item.done", {"output_index": index, "item": item})

    # --- what the agent does itself ---

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
        text = f"Tool {started.title}: {event.status.value}"
        facts: JsonObject = {"kind": "tool_call", "title": started.title, "status": event.status.value}
        for name, value in (("arguments", started.arguments), ("output", event.output)):
            if value is not None:
                facts[name] = shown(value)
        self._tell(text, facts)

    def _tell_decision(self, event: PermissionAnswered) -> None:
        title = self._asked.pop(event.id, "")
        word = "cancelled" if event.option is None else event.option.name
        facts: JsonObject = {"kind": "permission", "title": title, "decision": word, "by": event.by}
        self._tell(f"Permission for {title}: {word} ({event.by})", facts)

    def _tell_notice(self, event: TurnEvent) -> None:
        """Report what the agent was not told or had lost, or a message that was dropped. Any other event is not for
        clients."""
        if isinstance(event, MessageDropped):
            self._tell(f"A message of the agent was dropped: {event.why}", {"kind": "message_dropped"})
        elif isinstance(event, HistoryCut):
            left_out = event.left_out
            text = f"The conversation is too long for the agent: its {left_out} oldest entries were left out."
            self._tell(text, {"kind": "history_cut", "left_out": left_out})
        elif isinstance(event, SeatToolsLost):
            text = "The agent had lost its tools; the conversation goes on in a session of it that has them."
            self._tell(text, {"kind": "tools_lost"})

    def _tell(self, text: str, activity: JsonObject) -> None:
        """Add a complete reasoning item."""
        self.close()
        self._begin("reasoning").item["activity"] = activity
        self._stream("reasoning", text)
        self.close()


def named(functions: Sequence[str]) -> re.Pattern[str] | None:
    """Return a pattern that finds one of these functions in an agent's name for a tool. None if there are no functions.

    A name matches alone, or behind the name of our server as agents write it (`mcp__ostler__NAME`, `ostler_NAME`, `NAME
    (ostler MCP Server)`); never as a part of a longer name.
    """
    if not functions:
        return None
    return re.compile(rf"(?:(?<![\w-])|ostler_+)(?:{'|'.join(map(re.escape, functions))})(?![\w-])")


def message(item_id: str) -> JsonObject:
    """Return an empty message of the assistant."""
    return {"type": "message", "id": item_id, "role": "assistant", "status": "in_progress", "content": []}


def reasoning(item_id: str) -> JsonObject:
    """Return an empty reasoning item."""
    return {"type": "reasoning", "id": item_id, "summary": []}


def text_part(text: str) -> JsonObject:
    """Return a text part of an answer."""
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


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
