"""JSON-RPC frames: building those of the agent, reading those of the client.

Rules of this file: pure. Output is ASCII JSON, so it is valid UTF-8 for any prompt. Input is never trusted: every field
is read through a function that names what was wrong.
"""

from __future__ import annotations

import json

PARSE_ERROR = -32700
INVALID_REQUEST = -32600
METHOD_NOT_FOUND = -32601
INVALID_PARAMS = -32602
INTERNAL_ERROR = -32603
NOT_FOUND = -32002


class RpcError(Exception):
    """A request must be answered with an error."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


def encode(frame: dict[str, object]) -> bytes:
    """Return one line for the wire."""
    return json.dumps(frame, separators=(",", ":")).encode("ascii") + b"\n"


def decode(line: bytes) -> dict[str, object] | None:
    """Return the object on a line, or None. Invalid UTF-8 is replaced, not fatal."""
    try:
        frame = json.loads(line.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None
    return frame if isinstance(frame, dict) else None


def request(number: int | str, method: str, params: dict[str, object]) -> dict[str, object]:
    return {"jsonrpc": "2.0", "id": number, "method": method, "params": params}


def notification(method: str, params: dict[str, object] | None = None) -> dict[str, object]:
    return {"jsonrpc": "2.0", "method": method, **({"params": params} if params is not None else {})}


def result(number: object, value: dict[str, object]) -> dict[str, object]:
    return {"jsonrpc": "2.0", "id": number, "result": value}


def failure(number: object, error: RpcError) -> dict[str, object]:
    return {"jsonrpc": "2.0", "id": number, "error": {"code": error.code, "message": error.message}}


def update(session: str, kind: str, /, **fields: object) -> dict[str, object]:
    """Return a session/update notification."""
    return notification("session/update", {"sessionId": session, "update": {"sessionUpdate": kind, **fields}})


def chunk(session: str, kind: str, text: str) -> dict[str, object]:
    """Return an update that carries a piece of text."""
    return update(session, kind, content={"type": "text", "text": text})


def text_field(params: dict[str, object], name: str) -> str:
    value = params.get(name)
    if not isinstance(value, str):
        raise RpcError(INVALID_PARAMS, f"{name} must be a string, got {_shown(value)}")
    return value


def list_field(params: dict[str, object], name: str) -> list[dict[str, object]]:
    value = params.get(name)
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise RpcError(INVALID_PARAMS, f"{name} must be an array of objects, got {_shown(value)}")
    return value


def prompt_blocks(params: dict[str, object]) -> list[dict[str, object]]:
    """Return the content blocks of a prompt after checking the fields that are read."""
    blocks = list_field(params, "prompt")
    for block in blocks:
        kind = text_field(block, "type")
        if kind == "text":
            text_field(block, "text")
        elif kind == "image":
            text_field(block, "data")
    return blocks


def _shown(value: object) -> str:
    if value is None:
        return "nothing"
    return f"{type(value).__name__} {json.dumps(value)[:80]}"
