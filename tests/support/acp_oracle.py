"""The official ACP schema as an oracle, for what an agent sends and for what we send to an agent.

Rules of this file: the schema comes from the models of PyPI `agent-client-protocol`, turned into JSON
Schema. The models themselves are no oracle: they replace a wrong optional field by its default instead of
complaining. Here every object is closed as well, so a field the schema does not know is an error. Faults
have no place here: give the oracle sound traffic only.
"""

import json
import os
from collections.abc import Iterable, Mapping
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator
from jsonschema.exceptions import best_match

Frame = Mapping[str, Any]
Model = str
"""Its name in the schema."""
Id = int | str
KEPT = Path(__file__).resolve().parents[2] / ".cache" / "acp"
ANYTHING = "anything"
"""What a tool server answers is not the schema's business."""


# What we ask an agent: method -> (params, result).
AGENT_METHODS: dict[str, tuple[Model, Model]] = {
    "initialize": ("InitializeRequest", "InitializeResponse"),
    "authenticate": ("AuthenticateRequest", "AuthenticateResponse"),
    "session/new": ("NewSessionRequest", "NewSessionResponse"),
    "session/load": ("LoadSessionRequest", "LoadSessionResponse"),
    "session/resume": ("ResumeSessionRequest", "ResumeSessionResponse"),
    "session/fork": ("ForkSessionRequest", "ForkSessionResponse"),
    "session/close": ("CloseSessionRequest", "CloseSessionResponse"),
    "session/delete": ("DeleteSessionRequest", "DeleteSessionResponse"),
    "session/list": ("ListSessionsRequest", "ListSessionsResponse"),
    "session/set_mode": ("SetSessionModeRequest", "SetSessionModeResponse"),
    "session/prompt": ("PromptRequest", "PromptResponse"),
}
# What an agent asks us: method -> (params, result).
CLIENT_METHODS: dict[str, tuple[Model, Model]] = {
    "session/request_permission": ("RequestPermissionRequest", "RequestPermissionResponse"),
    "fs/read_text_file": ("ReadTextFileRequest", "ReadTextFileResponse"),
    "fs/write_text_file": ("WriteTextFileRequest", "WriteTextFileResponse"),
    "terminal/create": ("CreateTerminalRequest", "CreateTerminalResponse"),
    "terminal/output": ("TerminalOutputRequest", "TerminalOutputResponse"),
    "terminal/release": ("ReleaseTerminalRequest", "ReleaseTerminalResponse"),
    "terminal/wait_for_exit": ("WaitForTerminalExitRequest", "WaitForTerminalExitResponse"),
    "terminal/kill": ("KillTerminalRequest", "KillTerminalResponse"),
    "mcp/connect": ("ConnectMcpRequest", "ConnectMcpResponse"),
    "mcp/message": ("MessageMcpRequest", ANYTHING),
    "mcp/disconnect": ("DisconnectMcpRequest", "DisconnectMcpResponse"),
}
AGENT_NOTIFICATIONS: dict[str, Model] = {
    "session/update": "SessionNotification",
    "mcp/message": "MessageMcpNotification",
}
CLIENT_NOTIFICATIONS: dict[str, Model] = {
    "session/cancel": "CancelNotification",
    "mcp/message": "MessageMcpNotification",
}
# In use, but in no released schema: only their envelope is checked.
UNSCHEDULED = frozenset({"session/set_model"})


class ProtocolViolation(AssertionError):
    """A frame that the official schema does not allow."""


def check_agent_frame(frame: Frame, pending: Mapping[Id, str]) -> None:
    """Check a frame an agent sent. `pending` holds the methods of our requests that it has not answered."""
    _check(frame, CLIENT_METHODS, AGENT_NOTIFICATIONS, AGENT_METHODS, pending)


def check_client_frame(frame: Frame, asked: Mapping[Id, str] | None = None) -> None:
    """Check a frame we sent. `asked` holds the methods of the agent's requests that we have not answered."""
    _check(frame, AGENT_METHODS, CLIENT_NOTIFICATIONS, CLIENT_METHODS, asked or {})


def _check(
    frame: Frame,
    requests: Mapping[str, tuple[Model, Model]],
    notifications: Mapping[str, Model],
    answered: Mapping[str, tuple[Model, Model]],
    pending: Mapping[Id, str],
) -> None:
    _require(frame.get("jsonrpc") == "2.0", frame, "jsonrpc must be '2.0'")
    method = frame.get("method")
    if method is None:
        _check_answer(frame, answered, pending)
        return
    known = {"jsonrpc", "id", "method", "params"}
    _require(set(frame) <= known, frame, f"fields beyond {sorted(known)}")
    if method in UNSCHEDULED:
        return
    model = requests.get(method, (None,))[0] if "id" in frame else notifications.get(method)
    _require(model is not None, frame, f"no {'request' if 'id' in frame else 'notification'} {method!r}")
    if model is not None:
        _match(model, frame.get("params"), frame)


def _check_answer(frame: Frame, answered: Mapping[str, tuple[Model, Model]], pending: Mapping[Id, str]) -> None:
    _require(frame.get("id") in pending, frame, f"an answer to none of {dict(pending)}")
    _require(("result" in frame) != ("error" in frame), frame, "needs a result or an error")
    _require(set(frame) <= {"jsonrpc", "id", "result", "error"}, frame, "unknown fields")
    method = pending[frame["id"]]
    if "error" in frame:
        _match("Error", frame["error"], frame)
    elif method in answered:
        _match(answered[method][1], frame["result"], frame)


def _match(model: Model, value: object, frame: Frame) -> None:
    error = best_match(_validator(model).iter_errors(value))
    if error is not None:
        raise ProtocolViolation(f"{model} at {error.json_path}: {error.message[:500]}\n{str(frame)[:500]}")


def _require(holds: bool, frame: Frame, rule: str) -> None:
    if not holds:
        raise ProtocolViolation(f"{rule}: {str(frame)[:500]}")


@cache
def _validator(model: Model) -> Draft202012Validator:
    return Draft202012Validator({"type": "object"} if model == ANYTHING else _closed(_schema_of(model)))


def _schema_of(model: Model) -> dict[str, Any]:
    """As the models say; kept by their version, because to import them takes longer than all of our own modules."""
    kept = KEPT / "-".join((version("agent-client-protocol"), version("pydantic"))) / f"{model}.json"
    if not kept.exists():
        from acp import schema

        kept.parent.mkdir(parents=True, exist_ok=True)
        # Whole or not at all: other workers look for it at this very moment.
        made = kept.with_suffix(f".{os.getpid()}")
        made.write_text(json.dumps(getattr(schema, model).model_json_schema(by_alias=True)))
        made.replace(kept)
    found: dict[str, Any] = json.loads(kept.read_text())
    return found


def _closed(node: Any) -> Any:
    """Return the schema with every object limited to the fields it names."""
    if isinstance(node, list):
        return [_closed(item) for item in node]
    if not isinstance(node, dict):
        return node
    closed = {key: _closed(value) for key, value in node.items()}
    if isinstance(node.get("properties"), dict) and "additionalProperties" not in node:
        closed["additionalProperties"] = False
    return closed


def check_sent(frames: Iterable[Frame]) -> None:
    """Our requests and notifications; answers need the agent's requests beside them and are checked with the codecs."""
    for frame in frames:
        if "method" in frame and not frame["method"].startswith("_"):
            check_client_frame(frame)
