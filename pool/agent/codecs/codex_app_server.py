"""The codex app-server protocol: threads, turns and items.

Rules:
- A codex thread is a session here. Each turn has an id, so a late event of an earlier turn is recognised and dropped
  (`stale` counts them). No other dialect can do that.
- Tools are declared as `dynamicTools` and called back as `item/tool/call` with the thread's id: no relay process, no
  token. Without `dynamicTools` the relay is configured per thread with `required: true`; otherwise codex silently
  leaves out a tool server that starts slowly.
- `never` with `read-only` hides every tool from the model without a message, so that pair is never sent.
- A process that was started to ask is told with each turn what the agent may do in it. At the level `workspace` its
  sandbox confines commands to the session's directory; below that it asks before every command that is not known to
  only read.
"""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import orjson

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
    ToolWanted,
)
from ostler.pool.agent.codecs.codex_news import READERS, Thread, retold
from ostler.pool.events import (
    AgentEvent,
    Finished,
    Other,
    PermissionAsked,
    PermissionOption,
    StopReason,
)
from ostler.pool.order import SeatOrder
from ostler.pool.ports import ToolResult
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
from ostler.pool.provider import Approval, Level, ToolChannel
from ostler.wire.json import JsonObject
from ostler.wire.rpc import INVALID_PARAMS, METHOD_NOT_FOUND, RpcFault

CLIENT_INFO = {"name": "ostler", "title": "ostler", "version": "0.1.0"}
SAFETY: Mapping[Approval, JsonObject] = {
    Approval.ASK: {"approvalPolicy": "untrusted", "sandbox": "read-only"},
    Approval.AUTO: {"approvalPolicy": "never", "sandbox": "danger-full-access"},
    Approval.AGENT: {},
}
ASK_FIRST: JsonObject = {"approvalPolicy": "untrusted", "sandboxPolicy": {"type": "readOnly"}}
TURNS: Mapping[Level, JsonObject] = {
    Level.DENY: ASK_FIRST,
    Level.ASK: ASK_FIRST,
    # Without the exclusions every session could write to the temporary directory that all sessions share.
    Level.WORKSPACE: {
        "approvalPolicy": "on-request",
        "sandboxPolicy": {
            "type": "workspaceWrite",
            "networkAccess": False,
            "excludeSlashTmp": True,
            "excludeTmpdirEnvVar": True,
        },
    },
    Level.AUTO: {"approvalPolicy": "never", "sandboxPolicy": {"type": "dangerFullAccess"}},
}
"""What a turn may do, for a process that was started to ask."""
APPROVALS = (
    PermissionOption("accept", "Allow once", "allow_once"),
    PermissionOption("acceptForSession", "Allow for this session", "allow_always"),
    PermissionOption("decline", "Reject", "reject_once"),
)
ELICITATIONS = (
    PermissionOption("accept", "Accept", "allow_once"),
    PermissionOption("decline", "Decline", "reject_once"),
)
COMMAND, CHANGE = "item/commandExecution/requestApproval", "item/fileChange/requestApproval"
DECISION, PERMISSIONS, ELICITATION = "decision", "permissions", "elicitation"
ASKING: Mapping[str, tuple[str, Sequence[PermissionOption]]] = {
    COMMAND: (DECISION, APPROVALS),
    CHANGE: (DECISION, APPROVALS),
    "item/permissions/requestApproval": (PERMISSIONS, APPROVALS),
    "mcpServer/elicitation/request": (ELICITATION, ELICITATIONS),
}


class CodexCodec:
    """`Codec` for the codex app-server. Remembers each thread's turn ids and running file changes."""

    versioned = False

    def __init__(self, model: str | None, approval: Approval, channel: ToolChannel) -> None:
        self._model = model
        self._safety = SAFETY[approval]
        self._turns = TURNS if approval is Approval.ASK else {}
        self._native_tools = channel is ToolChannel.DYNAMIC_TOOLS
        self._threads: dict[str, Thread] = {}
        self._asked = itertools.count(1)
        self.stale = 0

    def hello(self) -> AgentCall:
        return AgentCall("initialize", {"clientInfo": CLIENT_INFO, "capabilities": {"experimentalApi": True}})

    def welcomed(self, result: Any) -> AgentInfo:
        agent = result.get("userAgent") if type(result) is dict else None
        if type(agent) is not str:
            raise BadReply("its answer to initialize names no user agent: this is no codex app-server")
        # The user agent begins with the client's name (`ostler`); only the version after it is codex's own.
        version = agent.partition(" ")[0].partition("/")[2]
        # Documents are sent as text; audio would need a file.
        takes = PromptCapabilities(image=True, embedded=True)
        channels = frozenset({ToolChannel.RELAY, ToolChannel.DYNAMIC_TOOLS})
        return AgentInfo("codex", version, prompt=takes, loads=True, channels=channels, closes=True)

    def greetings(self) -> Sequence[AgentNotification]:
        return (AgentNotification("initialized", {}),)

    def open(self, order: SeatOrder) -> AgentCall:
        params = self._placed(order)
        if self._native_tools and order.ticket is not None:
            params["dynamicTools"] = [_tool(definition) for definition in order.ticket.definitions]
        return AgentCall("thread/start", params)

    def unarchive(self, session_id: str) -> Sequence[AgentCall]:
        # Closing a session archives its thread, and an archived thread cannot be resumed.
        return (AgentCall("thread/unarchive", {"threadId": session_id}),)

    def load(self, session_id: str, order: SeatOrder) -> AgentCall:
        return AgentCall("thread/resume", {"threadId": session_id, "excludeTurns": True, **self._placed(order)})

    def opened(self, result: Any, session_id: str | None = None) -> Opened:
        answer = result if type(result) is dict else {}
        thread = answer.get("thread")
        found = session_id or (thread.get("id") if type(thread) is dict else None)
        if type(found) is not str or not found:
            raise BadReply("its answer to thread/start names no thread")
        self._threads[found] = Thread()
        model = answer.get("model")
        return Opened(found, model=model if type(model) is str else None)

    def recent_turns(self, session_id: str, turns: int) -> Sequence[AgentCall]:
        # Only the last turns: a resume that includes turns includes all of them.
        newest = {"limit": turns, "sortDirection": "desc", "itemsView": "full"}
        return (AgentCall("thread/turns/list", {"threadId": session_id, **newest}),)

    def replayed_events(self, result: Any) -> Sequence[AgentEvent]:
        try:
            items = [item for turn in reversed(result["data"]) for item in turn["items"]]
        except (KeyError, TypeError) as error:
            raise BadReply("its answer to thread/turns/list has no turns in a shape that ostler knows") from error
        return [event for item in items for event in retold(item)]

    def set_mode(self, session_id: str, mode: str) -> Sequence[AgentCall]:  # noqa: ARG002 (threads have no modes)
        return ()

    def prompt(self, session_id: str, parts: Sequence[PromptPart], level: Level | None = None) -> AgentCall:
        thread = self._thread(session_id)
        thread.past, thread.turn, thread.running = thread.turn or thread.past, None, False
        thread.spoken.clear()
        thread.changes.clear()
        said = [_input(part) for part in parts]
        allowed = self._turns.get(level, {}) if level is not None else {}
        return AgentCall("turn/start", {"threadId": session_id, "input": said, **allowed})

    def replied(self, session_id: str, result: Any) -> Finished | None:
        turn = result.get("turn") if type(result) is dict else None
        turn_id = turn.get("id") if type(turn) is dict else None
        if type(turn_id) is not str:
            return Finished(StopReason.FAILED, "its answer to turn/start names no turn")
        self._thread(session_id).turn = turn_id
        return None

    def failed(self, session_id: str, fault: RpcFault) -> None:  # noqa: ARG002 (the caller reads the fault)
        self._thread(session_id).turn = None

    def cancel(self, session_id: str) -> AgentCall | AgentNotification | None:
        thread = self._thread(session_id)
        if thread.turn is None or not thread.running:
            return None
        return AgentCall("turn/interrupt", {"threadId": session_id, "turnId": thread.turn})

    def close(self, session_id: str, *, offered: bool) -> Sequence[AgentCall]:  # noqa: ARG002 (every version has them)
        # Unsubscribing alone keeps the tool servers for a minute; archiving alone keeps the thread loaded.
        return (
            AgentCall("thread/unsubscribe", {"threadId": session_id}),
            AgentCall("thread/archive", {"threadId": session_id}),
        )

    def forget(self, session_id: str) -> None:
        self._threads.pop(session_id, None)

    def probe(self) -> AgentCall:
        return AgentCall("thread/loaded/list", {"limit": 1})

    def session_update(self, method: str, params: JsonObject) -> SessionUpdate | None:
        thread_id = params.get("threadId")
        thread = self._threads.get(thread_id) if type(thread_id) is str else None
        if thread is None or type(thread_id) is not str:
            return None if type(thread_id) is not str else (thread_id, Other(method, params))
        turn_id = params.get("turnId")
        if turn_id is not None and turn_id != thread.turn and (thread.turn is not None or turn_id == thread.past):
            self.stale += 1
            return None
        try:
            return thread_id, READERS[method](thread, params)
        except (KeyError, TypeError, AttributeError, ValueError):
            return thread_id, Other(method, params)

    def wanted(self, method: str, params: JsonObject) -> AgentRequest:
        thread_id = params.get("threadId")
        if method != "item/tool/call" and method not in ASKING:
            return RefusedRequest(RpcFault(METHOD_NOT_FOUND, f"ostler does not offer {method}"))
        if type(thread_id) is not str:
            return RefusedRequest(RpcFault(INVALID_PARAMS, "the request names no thread"))
        if method == "item/tool/call":
            return _tool_wanted(thread_id, params)
        dialect, options = ASKING[method]
        changes = self._thread(thread_id).changes.get(str(params.get("itemId")), []) if method == CHANGE else []
        call = {**params, **_described(method, params, changes)}
        asked = PermissionAsked(f"p{next(self._asked)}", _title(params, changes), list(options), call)
        return PermissionWanted(thread_id, asked, dialect)

    def carries(self, method: str) -> bool:  # noqa: ARG002 (other dialects need it)
        return False

    def permission_answer(self, wanted: PermissionWanted, option: str | None) -> JsonObject:
        if wanted.dialect == ELICITATION:
            return {"action": option, "content": {}} if option == "accept" else {"action": option or "cancel"}
        if wanted.dialect == DECISION:
            return {"decision": option or "cancel"}
        if option not in ("accept", "acceptForSession"):
            return {"permissions": {}}
        scope = "turn" if option == "accept" else "session"
        return {"permissions": wanted.asked.tool_call.get("permissions", {}), "scope": scope}

    def tool_answer(self, result: ToolResult) -> JsonObject:
        return {"contentItems": [_content(block) for block in result.content], "success": not result.is_error}

    def _thread(self, session_id: str) -> Thread:
        return self._threads.setdefault(session_id, Thread())

    def _placed(self, order: SeatOrder) -> JsonObject:
        params: JsonObject = {"cwd": order.cwd, **self._safety}
        if self._model is not None:
            params["model"] = self._model
        if order.ticket is not None and not self._native_tools:
            relay = order.ticket.relay
            command, *arguments = relay.argv
            server = {"command": command, "args": arguments, "env": dict(relay.env), "required": True}
            params["config"] = {f"mcp_servers.{relay.name}": server}
        return params


def _tool(definition: JsonObject) -> JsonObject:
    return {
        "type": "function",
        "name": definition["name"],
        "description": definition.get("description") or "",
        "inputSchema": definition.get("inputSchema") or {"type": "object"},
    }


def _tool_wanted(thread_id: str, params: JsonObject) -> AgentRequest:
    name, call_id, arguments = params.get("tool"), params.get("callId"), params.get("arguments")
    if type(name) is not str or type(call_id) is not str:
        return RefusedRequest(RpcFault(INVALID_PARAMS, "a tool call needs a tool and a callId"))
    return ToolWanted(thread_id, call_id, name, arguments if type(arguments) is dict else {})


def _title(params: JsonObject, changes: Sequence[JsonObject]) -> str:
    # The command comes before the model's reason for it: the decision is about what runs.
    for name in ("command", "message", "reason"):
        said = params.get(name)
        if type(said) is str and said:
            return said
    paths = [path for change in changes if type(path := change.get("path")) is str]
    return f"change {', '.join(paths)}" if paths else "permission"


def _described(method: str, params: JsonObject, changes: Sequence[JsonObject]) -> JsonObject:
    """The request in ACP's vocabulary, so that a policy and a user read one format for all agents."""
    if method == COMMAND:
        given = {name: params[name] for name in ("command", "cwd", "reason") if params.get(name) is not None}
        return {"kind": "execute", "rawInput": given}
    if method != CHANGE:
        return {}
    content = [{"type": "diff", "path": each.get("path"), "diff": each.get("diff")} for each in changes]
    return {"kind": "edit", "content": content}


def _input(part: PromptPart) -> JsonObject:
    match part:
        case TextPart(text):
            return {"type": "text", "text": text}
        case ImagePart(data, mime):
            return {"type": "image", "url": f"data:{mime};base64,{data}"}
        case ResourcePart(uri, text):
            return {"type": "text", "text": f"{uri}:\n{text}"}
        case FilePart(uri, data, mime):
            return {"type": "text", "text": f"{uri} ({mime or 'unknown type'}, base64):\n{data}"}
        case LinkPart(uri, name):
            return {"type": "text", "text": f"[{name}]({uri})"}
        case AudioPart():
            raise TypeError("a sound is refused before it gets here")


def _content(block: JsonObject) -> JsonObject:
    """Convert one MCP content block to codex's format."""
    match block:
        case {"type": "text", "text": str(text)}:
            return {"type": "inputText", "text": text}
        case {"type": "image", "data": str(data), "mimeType": str(mime)}:
            return {"type": "inputImage", "imageUrl": f"data:{mime};base64,{data}"}
        case {"type": "audio", "data": str(data), "mimeType": str(mime)}:
            return {"type": "inputAudio", "audioUrl": f"data:{mime};base64,{data}"}
        case _:
            return {"type": "inputText", "text": orjson.dumps(block).decode()}
