"""Notifications of a codex app-server as events of a turn. One reader for each method.

Rules: a reader takes the fields it needs and raises on anything else (`KeyError`, `TypeError`, `AttributeError`,
`ValueError`); the codec then turns that notification into `Other`. State between notifications is kept in `Thread`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from ostler.pool.events import (
    AgentEvent,
    Finished,
    ModelChanged,
    Other,
    Plan,
    PlanStep,
    StopReason,
    Text,
    Thought,
    ToolEnded,
    ToolStarted,
    ToolStatus,
    ToolUpdated,
    Usage,
    UserText,
)
from ostler.wire.json import JsonObject

STOPS: Mapping[str, StopReason] = {
    "completed": StopReason.DONE,
    "interrupted": StopReason.CANCELLED,
    "failed": StopReason.FAILED,
}
STATUSES: Mapping[Any, ToolStatus] = {
    "inProgress": ToolStatus.RUNNING,
    "completed": ToolStatus.COMPLETED,
    "failed": ToolStatus.FAILED,
    "declined": ToolStatus.FAILED,
}


CHANGES_AT_MOST = 64
"""File changes that may run at once in one thread and are remembered for a permission request."""


@dataclass(slots=True)
class Thread:
    """The state of one codex thread that its readers need."""

    turn: str | None = None
    running: bool = False
    """The agent has announced that the turn runs; before that, a turn named in an answer cannot be interrupted."""
    past: str | None = None
    spoken: set[str] = field(default_factory=set)
    """Item ids of messages that arrived in pieces in this turn: their full text at the end is not repeated."""
    changes: dict[str, list[JsonObject]] = field(default_factory=dict)
    """The running file changes by item id: a permission request names only the item."""


def _delta(thread: Thread, params: JsonObject) -> AgentEvent:
    thread.spoken.add(params["itemId"])
    return Text(_needed(params["delta"]))


def _thought(_thread: Thread, params: JsonObject) -> AgentEvent:
    return Thought(_needed(params["delta"]))


def _turn_started(thread: Thread, params: JsonObject) -> AgentEvent:
    if params["turn"]["id"] != thread.past:
        thread.turn, thread.running = _needed(params["turn"]["id"]), True
    return Other("turn/started", params)


def _turn_completed(thread: Thread, params: JsonObject) -> AgentEvent:
    turn = params["turn"]
    if turn["id"] == thread.past or (thread.turn is not None and turn["id"] != thread.turn):
        return Other("turn/completed", params)
    thread.past, thread.turn, thread.running = turn["id"], None, False
    error = turn.get("error")
    message = error.get("message") if type(error) is dict else None
    return Finished(STOPS.get(turn["status"], StopReason.FAILED), message if type(message) is str else "")


def _plan(_thread: Thread, params: JsonObject) -> AgentEvent:
    steps = {"inProgress": "in_progress"}
    return Plan(
        [PlanStep(_needed(step["step"]), _needed(steps.get(step["status"], step["status"]))) for step in params["plan"]]
    )


def _usage(_thread: Thread, params: JsonObject) -> AgentEvent:
    usage = params["tokenUsage"]
    last, size = usage["last"], _count(usage.get("modelContextWindow"))
    taken, given, total = (_count(last[name]) for name in ("inputTokens", "outputTokens", "totalTokens"))
    return Usage(taken, given, total, total, size)


def _model(_thread: Thread, params: JsonObject) -> AgentEvent:
    return ModelChanged(_needed(params["toModel"]))


def _output(_thread: Thread, params: JsonObject) -> AgentEvent:
    return ToolUpdated(_needed(params["itemId"]), status=ToolStatus.RUNNING, output=params["delta"])


def _progress(_thread: Thread, params: JsonObject) -> AgentEvent:
    return ToolUpdated(_needed(params["itemId"]), status=ToolStatus.RUNNING, output=params["message"])


def _item_started(thread: Thread, params: JsonObject) -> AgentEvent:
    item = params["item"]
    if item["type"] == "fileChange" and type(item.get("changes")) is list and len(thread.changes) < CHANGES_AT_MOST:
        thread.changes[_needed(item["id"])] = [change for change in item["changes"] if type(change) is dict]
    return _started(item)


def _started(item: JsonObject) -> ToolStarted:
    kind, title, arguments = TOOLS[item["type"]](item)
    return ToolStarted(
        _needed(item["id"]), _needed(title), kind, arguments, STATUSES.get(item.get("status"), ToolStatus.RUNNING)
    )


def _item_completed(thread: Thread, params: JsonObject) -> AgentEvent:
    item = params["item"]
    if type(item.get("id")) is str:
        thread.changes.pop(item["id"], None)
    if item["type"] == "agentMessage":
        # Some messages arrive whole: without deltas before it, this is the only time their text is sent.
        if item["id"] in thread.spoken or not item["text"]:
            return Other("item/completed", params)
        return Text(_needed(item["text"]))
    if item["type"] not in TOOLS:
        return Other("item/completed", params)
    status = STATUSES.get(item.get("status"), ToolStatus.COMPLETED)
    output = next((item[name] for name in OUTPUTS if item.get(name) is not None), None)
    return ToolEnded(_needed(item["id"]), status, output)


OUTPUTS = ("aggregatedOutput", "result", "error", "contentItems", "changes", "results")
Described = tuple[str, str, Any]
"""Kind, title and arguments of a tool call."""

TOOLS: Mapping[str, Callable[[JsonObject], Described]] = {
    "commandExecution": lambda item: ("execute", item["command"], {"command": item["command"], "cwd": item.get("cwd")}),
    "fileChange": lambda item: ("edit", "change files", item.get("changes")),
    "mcpToolCall": lambda item: ("other", item["tool"], item.get("arguments")),
    "dynamicToolCall": lambda item: ("other", item["tool"], item.get("arguments")),
    "collabAgentToolCall": lambda item: ("other", str(item["tool"]), item.get("prompt")),
    "webSearch": lambda item: ("search", item["query"], {"query": item["query"]}),
}


def retold(item: Any) -> Sequence[AgentEvent]:
    """An item of a finished turn as events; empty for an item of another kind or shape."""
    try:
        kind = item["type"]
        if kind == "userMessage":
            return [UserText(_needed(part["text"])) for part in item["content"] if part["type"] == "text"]
        if kind == "agentMessage":
            return [Text(_needed(item["text"]))]
        return [_started(item)] if kind in TOOLS else []
    except (KeyError, TypeError, AttributeError, ValueError):
        return []


READERS: Mapping[str, Callable[[Thread, JsonObject], AgentEvent]] = {
    "item/agentMessage/delta": _delta,
    "item/reasoning/textDelta": _thought,
    "item/reasoning/summaryTextDelta": _thought,
    "item/started": _item_started,
    "item/completed": _item_completed,
    "item/commandExecution/outputDelta": _output,
    "item/mcpToolCall/progress": _progress,
    "turn/started": _turn_started,
    "turn/completed": _turn_completed,
    "turn/plan/updated": _plan,
    "thread/tokenUsage/updated": _usage,
    "model/rerouted": _model,
}


def _needed(value: Any) -> str:
    if type(value) is not str:
        raise TypeError("a text was expected")
    return value


def _count(value: Any) -> int | None:
    return value if type(value) is int else None
