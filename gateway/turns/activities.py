"""What an agent does itself, told to a person: its tools, its plan, decisions on its requests, what it was not told.

Rules:
- A value machine: one event of the turn in, what is to be told of it out.
- A tool is told once, when it is over, with its last title and its arguments.
- An agent also announces calls of the client's own functions. That announcement is dropped, because the call itself
  follows as an item.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any, TypeAlias

import orjson

from ostler.gateway.turns.host_events import HistoryCut, SeatToolsLost
from ostler.pool.events import (
    MessageDropped,
    PermissionAnswered,
    PermissionAsked,
    Plan,
    ToolEnded,
    ToolStarted,
    ToolUpdated,
    TurnEvent,
)
from ostler.wire.json import JsonObject

OPEN_KEPT = 256
"""The most calls that the agent has begun and not ended. For one more, the oldest is reported as it is. All open calls
are reported in one step when the answer ends: 300,000 of them blocked every client for ten seconds."""
SHOWN = 2000
"""The most characters of a tool's arguments or result that are shown."""
Activity: TypeAlias = tuple[str, JsonObject]
"""A text for a person, and the same as facts for a program."""


class Activities:
    """The activities of one answer."""

    def __init__(self, functions: Sequence[str]) -> None:
        """`functions`: the names of those that the client executes."""
        self._own = named(functions)
        self._tools: dict[str, ToolStarted] = {}
        self._asked: dict[str, str] = {}
        """Titles of permission requests by their id."""

    def take(self, event: TurnEvent) -> Iterator[Activity]:
        """Yield what is to be told of one event. Kinds that are not for clients are ignored."""
        match event:
            case ToolStarted():
                yield from self._start(event)
            case ToolUpdated():
                self._update(event)
            case ToolEnded():
                yield from self._end(event)
            case PermissionAsked(id=asked, title=title):
                self._asked[asked] = title
            case PermissionAnswered():
                title = self._asked.pop(event.id, "")
                word = "cancelled" if event.option is None else event.option.name
                facts: JsonObject = {"kind": "permission", "title": title, "decision": word, "by": event.by}
                yield f"Permission for {title}: {word} ({event.by})", facts
            case _:
                yield from notice_of(event)

    def end(self) -> Iterator[Activity]:
        """Yield the tools that never ended, as they are."""
        for started in tuple(self._tools.values()):
            yield from self._end(ToolEnded(started.id, started.status))

    def _start(self, event: ToolStarted) -> Iterator[Activity]:
        if self._own is None or self._own.search(event.title) is None:
            # Shortened here: otherwise a call that never ends would keep megabytes for the 2000 characters that are
            # shown.
            self._tools[event.id] = replace(event, arguments=cut(event.arguments))
            if len(self._tools) > OPEN_KEPT:
                oldest = next(iter(self._tools.values()))
                yield from self._end(ToolEnded(oldest.id, oldest.status))

    def _update(self, event: ToolUpdated) -> None:
        started = self._tools.get(event.id)
        if started is not None:
            started.title = event.title or started.title
            started.arguments = started.arguments if event.arguments is None else cut(event.arguments)
            started.status = event.status or started.status

    def _end(self, event: ToolEnded) -> Iterator[Activity]:
        started = self._tools.pop(event.id, None)
        if started is None:
            return
        facts: JsonObject = {"kind": "tool_call", "title": started.title, "status": event.status.value}
        for name, value in (("arguments", started.arguments), ("output", event.output)):
            if value is not None:
                facts[name] = shown(value)
        yield f"Tool {started.title}: {event.status.value}", facts


def notice_of(event: TurnEvent) -> Iterator[Activity]:
    """Yield a plan, and what the agent was not told or had lost."""
    match event:
        case Plan(steps=steps):
            lines = "\n".join(f"- [{'x' if step.status == 'completed' else ' '}] {step.text}" for step in steps)
            yield f"Plan:\n{lines}", {"kind": "plan"}
        case MessageDropped(why=why):
            yield f"A message of the agent was dropped: {why}", {"kind": "message_dropped"}
        case HistoryCut(left_out=left_out):
            text = f"The conversation is too long for the agent: its {left_out} oldest entries were left out."
            yield text, {"kind": "history_cut", "left_out": left_out}
        case SeatToolsLost():
            text = "The agent had lost its tools; the conversation goes on in a session of it that has them."
            yield text, {"kind": "tools_lost"}


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
