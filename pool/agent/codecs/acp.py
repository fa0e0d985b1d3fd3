"""The Agent Client Protocol, version 1.

Rules:
- The client offers no file system and no terminal: an agent that requests one gets "method not found".
- `mcpServers` is always present; three agents answer with an error when it is missing. Its one entry names the channel
  of the session's tools; the token is in an environment variable or a header of that entry, nowhere else.
- One update gives one event. Text is the hot path: one dictionary lookup by kind, no chain of comparisons.
- A tool call that has already finished when it is announced is a `ToolStarted` with that status; consumers read it
  there.
"""

import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ostler.pool.agent.codec import (
    AgentCall,
    AgentInfo,
    AgentNotification,
    AgentRequest,
    BadReply,
    Opened,
    PermissionWanted,
    RefusedRequest,
    SessionUpdate,
)
from ostler.pool.events import (
    AgentEvent,
    Finished,
    ModeChanged,
    Other,
    PermissionAsked,
    PermissionOption,
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
from ostler.pool.order import SeatOrder
from ostler.pool.ports import HttpEndpoint, RelayLaunch, ToolResult, ToolTicket
from ostler.pool.prompt import (
    AudioPart,
    FilePart,
    ImagePart,
    LinkPart,
    PromptCapabilities,
    PromptPart,
    ResourcePart,
    TextPart,
)
from ostler.pool.provider import Level, ToolChannel
from ostler.wire.json import JsonObject
from ostler.wire.rpc import INVALID_PARAMS, METHOD_NOT_FOUND, RpcFault

VERSION = 1
CLIENT_INFO = {"name": "ostler", "title": "ostler", "version": "0.1.0"}
CAPABILITIES = {"fs": {"readTextFile": False, "writeTextFile": False}, "terminal": False}

STOP_REASONS: Mapping[str, StopReason] = {
    "end_turn": StopReason.DONE,
    "max_tokens": StopReason.LIMIT,
    "max_turn_requests": StopReason.LIMIT,
    "refusal": StopReason.REFUSED,
    "cancelled": StopReason.CANCELLED,
}
STATUSES: Mapping[Any, ToolStatus] = {
    "pending": ToolStatus.PENDING,
    "in_progress": ToolStatus.RUNNING,
    "completed": ToolStatus.COMPLETED,
    "failed": ToolStatus.FAILED,
}
ENDED = (ToolStatus.COMPLETED, ToolStatus.FAILED)


class AcpCodec:
    """`Codec` for ACP. It keeps no state about sessions."""

    versioned = True
    stale = 0

    def __init__(self, channel: ToolChannel = ToolChannel.RELAY) -> None:
        self._channel = channel
        self._asked = itertools.count(1)

    def hello(self) -> AgentCall:
        return AgentCall(
            "initialize",
            {"protocolVersion": VERSION, "clientCapabilities": CAPABILITIES, "clientInfo": CLIENT_INFO},
        )

    def welcomed(self, result: Any) -> AgentInfo:
        version = _object(result).get("protocolVersion")
        if type(version) is not int:
            raise BadReply("its answer to initialize names no ACP protocol version")
        if version != VERSION:
            raise BadReply(f"it speaks ACP version {version}, ostler speaks version {VERSION}")
        info, capabilities = _object(result.get("agentInfo")), _object(result.get("agentCapabilities"))
        takes, sessions = _object(capabilities.get("promptCapabilities")), capabilities.get("sessionCapabilities")
        return AgentInfo(
            name=_text(info.get("name")),
            version=_text(info.get("version")),
            prompt=PromptCapabilities(
                image=takes.get("image") is True,
                audio=takes.get("audio") is True,
                embedded=takes.get("embeddedContext") is True,
            ),
            loads=capabilities.get("loadSession") is True,
            closes=_object(sessions).get("close") is not None,
            channels=_channels(_object(capabilities.get("mcpCapabilities"))),
        )

    def greetings(self) -> Sequence[AgentNotification]:
        return ()

    def open(self, order: SeatOrder) -> AgentCall:
        return AgentCall("session/new", self._placed(order))

    def unarchive(self, session_id: str) -> Sequence[AgentCall]:  # noqa: ARG002 (other dialects need it)
        return ()

    def load(self, session_id: str, order: SeatOrder) -> AgentCall:
        return AgentCall("session/load", {"sessionId": session_id, **self._placed(order)})

    def opened(self, result: Any, session_id: str | None = None) -> Opened:
        answer = _object(result)
        found = session_id or answer.get("sessionId")
        if type(found) is not str or not found:
            raise BadReply("its answer to session/new names no session")
        mode = _object(answer.get("modes")).get("currentModeId")
        model = _object(answer.get("models")).get("currentModelId")
        return Opened(found, model=_text(model) or None, mode=_text(mode) or None)

    def recent_turns(self, session_id: str, turns: int) -> Sequence[AgentCall]:  # noqa: ARG002 (other dialects need it)
        return ()

    def replayed_events(self, result: Any) -> Sequence[AgentEvent]:  # noqa: ARG002 (other dialects need it)
        return ()

    def set_mode(self, session_id: str, mode: str) -> Sequence[AgentCall]:
        return (AgentCall("session/set_mode", {"sessionId": session_id, "modeId": mode}),)

    def prompt(self, session_id: str, parts: Sequence[PromptPart], level: Level | None = None) -> AgentCall:  # noqa: ARG002 (other dialects need it)
        return AgentCall("session/prompt", {"sessionId": session_id, "prompt": [_block(part) for part in parts]})

    def replied(self, session_id: str, result: Any) -> Finished | None:  # noqa: ARG002 (other dialects need it)
        answer = _object(result)
        said = answer.get("stopReason")
        usage = _usage(_object(answer.get("usage")))
        reason = STOP_REASONS.get(said) if type(said) is str else None
        if reason is None:
            return Finished(StopReason.DONE, f"the agent gave the unknown stop reason {said!r}", usage)
        return Finished(reason, "", usage)

    def failed(self, session_id: str, fault: RpcFault) -> None:
        """Nothing to record: this codec keeps no state about turns."""

    def cancel(self, session_id: str) -> AgentCall | AgentNotification | None:
        return AgentNotification("session/cancel", {"sessionId": session_id})

    def close(self, session_id: str, *, offered: bool) -> Sequence[AgentCall]:
        return (AgentCall("session/close", {"sessionId": session_id}),) if offered else ()

    def forget(self, session_id: str) -> None:
        """Nothing to drop: this codec keeps no state about sessions."""

    def probe(self) -> AgentCall:
        # Agents do not know this method; all of them answer with an error and do no work for it.
        return AgentCall("_ostler/ping", {})

    def session_update(self, method: str, params: JsonObject) -> SessionUpdate | None:
        if method != "session/update":
            return None
        session_id = params.get("sessionId")
        if type(session_id) is not str:
            return None
        update = params.get("update")
        try:
            return session_id, READERS[update["sessionUpdate"]](update)  # type: ignore[index,arg-type] # TypeError is caught
        except (KeyError, TypeError, AttributeError, ValueError):
            # A newer protocol version may send an unknown kind, or a known kind in another shape; both become `Other`.
            return session_id, _other(update)

    def wanted(self, method: str, params: JsonObject) -> AgentRequest:
        if method != "session/request_permission":
            return RefusedRequest(RpcFault(METHOD_NOT_FOUND, f"ostler does not offer {method}"))
        session_id, call = params.get("sessionId"), _object(params.get("toolCall"))
        options = _options(params.get("options"))
        if type(session_id) is not str or options is None:
            return RefusedRequest(RpcFault(INVALID_PARAMS, "a permission request needs a sessionId and options"))
        asked = PermissionAsked(f"p{next(self._asked)}", _text(call.get("title")), options, call)
        return PermissionWanted(session_id, asked)

    def carries(self, method: str) -> bool:
        return self._channel is ToolChannel.ACP and method.startswith("mcp/")

    def permission_answer(self, wanted: PermissionWanted, option: str | None) -> JsonObject:  # noqa: ARG002 (other dialects need it)
        if option is None:
            return {"outcome": {"outcome": "cancelled"}}
        return {"outcome": {"outcome": "selected", "optionId": option}}

    def tool_answer(self, result: ToolResult) -> JsonObject:
        raise NotImplementedError("this dialect has no tool calls of its own: tools are reached by MCP")

    def _placed(self, order: SeatOrder) -> JsonObject:
        """The directory and the MCP servers of a session."""
        server = None if order.ticket is None else self._server(order, order.ticket)
        placed: JsonObject = {"cwd": order.cwd, "mcpServers": [] if server is None else [server]}
        if order.meta:
            placed["_meta"] = dict(order.meta)
        return placed

    def _server(self, order: SeatOrder, ticket: ToolTicket) -> JsonObject | None:
        if self._channel is ToolChannel.ACP:
            return order.declared
        if self._channel is ToolChannel.HTTP:
            endpoint = ticket.http()
            return None if endpoint is None else _http_server(endpoint)
        return _stdio_server(ticket.relay)


def _stdio_server(relay: RelayLaunch) -> JsonObject:
    command, *arguments = relay.argv
    return {"name": relay.name, "command": command, "args": arguments, "env": _pairs(relay.env)}


def _http_server(endpoint: HttpEndpoint) -> JsonObject:
    return {"type": "http", "name": endpoint.name, "url": endpoint.url, "headers": _pairs(endpoint.headers)}


def _pairs(values: Mapping[str, str]) -> list[JsonObject]:
    return [{"name": name, "value": value} for name, value in values.items()]


def _channels(offered: JsonObject) -> frozenset[ToolChannel]:
    optional = (ToolChannel.HTTP, ToolChannel.ACP)
    return frozenset({ToolChannel.RELAY, *(each for each in optional if offered.get(each.value) is True)})


def _block(part: PromptPart) -> JsonObject:
    match part:
        case TextPart(text):
            return {"type": "text", "text": text}
        case ImagePart(data, mime):
            return {"type": "image", "data": data, "mimeType": mime}
        case AudioPart(data, mime):
            return {"type": "audio", "data": data, "mimeType": mime}
        case ResourcePart(uri, text, mime):
            return {"type": "resource", "resource": _typed({"uri": uri, "text": text}, mime)}
        case FilePart(uri, data, mime):
            return {"type": "resource", "resource": _typed({"uri": uri, "blob": data}, mime)}
        case LinkPart(uri, name, mime):
            return _typed({"type": "resource_link", "uri": uri, "name": name}, mime)


def _typed(block: JsonObject, mime: str | None) -> JsonObject:
    return block if mime is None else {**block, "mimeType": mime}


def _text_of(update: JsonObject) -> str | None:
    """The text of a chunk; None for any other content."""
    content = update["content"]
    text = content["text"] if content["type"] == "text" else None
    return text if type(text) is str else None


def _message(update: JsonObject) -> AgentEvent:
    # Some agents send empty chunks before a tool call; these do not begin an answer.
    text = _text_of(update)
    return Text(text) if text else _other(update)


def _thought(update: JsonObject) -> AgentEvent:
    text = _text_of(update)
    return _other(update) if text is None else Thought(text)


def _user(update: JsonObject) -> AgentEvent:
    text = _text_of(update)
    return _other(update) if text is None else UserText(text)


def _tool_call(update: JsonObject) -> AgentEvent:
    return ToolStarted(
        id=_needed(update["toolCallId"]),
        title=_text(update.get("title")),
        kind=_text(update.get("kind")) or "other",
        arguments=update.get("rawInput"),
        status=STATUSES.get(update.get("status"), ToolStatus.PENDING),
    )


def _tool_call_update(update: JsonObject) -> AgentEvent:
    call_id = _needed(update["toolCallId"])
    status = STATUSES.get(update.get("status"))
    output = update.get("rawOutput")
    if output is None:
        output = update.get("content")
    if status in ENDED:
        return ToolEnded(call_id, status, output)
    return ToolUpdated(call_id, _text(update.get("title")) or None, status, update.get("rawInput"), output)


def _plan(update: JsonObject) -> AgentEvent:
    return Plan(
        [
            PlanStep(
                _needed(entry["content"]),
                _text(entry.get("status")) or "pending",
                _text(entry.get("priority")) or "medium",
            )
            for entry in update["entries"]
        ]
    )


def _mode(update: JsonObject) -> AgentEvent:
    return ModeChanged(_needed(update["currentModeId"]))


def _context(update: JsonObject) -> AgentEvent:
    return Usage(context_used=_count(update.get("used")), context_size=_count(update.get("size")))


READERS: Mapping[str, Callable[[JsonObject], AgentEvent]] = {
    "agent_message_chunk": _message,
    "agent_thought_chunk": _thought,
    "user_message_chunk": _user,
    "tool_call": _tool_call,
    "tool_call_update": _tool_call_update,
    "plan": _plan,
    "current_mode_update": _mode,
    "usage_update": _context,
}


def _other(update: Any) -> Other:
    kind = update.get("sessionUpdate") if type(update) is dict else None
    return Other(kind if type(kind) is str else "malformed", update if type(update) is dict else {"update": update})


def _options(found: Any) -> list[PermissionOption] | None:
    if type(found) is not list:
        return None
    options = [
        PermissionOption(option["optionId"], _text(option.get("name")), _text(option.get("kind")))
        for option in found
        if type(option) is dict and type(option.get("optionId")) is str
    ]
    return options or None


def _usage(found: JsonObject) -> Usage | None:
    if not found:
        return None
    return Usage(_count(found.get("inputTokens")), _count(found.get("outputTokens")), _count(found.get("totalTokens")))


def _object(value: Any) -> JsonObject:
    return value if type(value) is dict else {}


def _text(value: Any) -> str:
    return value if type(value) is str else ""


def _needed(value: Any) -> str:
    if type(value) is not str:
        raise TypeError("a text was expected")
    return value


def _count(value: Any) -> int | None:
    return value if type(value) is int else None
