"""The types shared by all channels: a call, its result, and the dispatcher that answers it.

Each call carries its session context, so no code looks up a "current session".
"""

from dataclasses import dataclass
from typing import Protocol

from ostler.wire.json import JsonObject


@dataclass(frozen=True, slots=True)
class CallResult:
    """A tool's answer as MCP content blocks. An error here is the tool's, not the protocol's."""

    content: tuple[JsonObject, ...]
    is_error: bool = False
    structured: JsonObject | None = None

    @classmethod
    def text(cls, text: str) -> "CallResult":
        return cls(({"type": "text", "text": text},))

    @classmethod
    def error(cls, text: str) -> "CallResult":
        return cls(({"type": "text", "text": text},), is_error=True)


class CallProgress(Protocol):
    """Reports how far a call is; a tool may call it from any thread."""

    def __call__(self, progress: float, total: float | None = None, message: str | None = None) -> None: ...


class Log(Protocol):
    """Sends a log message of a call; a tool may call it from any thread."""

    def __call__(self, level: str, data: object, logger: str | None = None) -> None: ...


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call as passed to a dispatcher."""

    name: str
    arguments: JsonObject
    call_id: str
    context: object
    progress: CallProgress
    log: Log


class Dispatcher(Protocol):
    """Answers the calls of a session's tools; what it raises becomes an error result."""

    async def __call__(self, call: ToolCall, /) -> CallResult: ...
