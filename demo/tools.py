"""The tools of one session, over all its servers: their names, and a call by name.

Rules of this file: it waits only through the turn, so a cancel ends the wait. A call that is given up is cancelled at
the server too. If several servers have a tool of one name, the first one answers.
"""

from __future__ import annotations

import json

TYPE_CHECKING = False
if TYPE_CHECKING:
    from ostler.demo.mcp_client import McpServer
    from ostler.demo.turn import DemoTurn

LIST_TIMEOUT = 30.0


class DemoToolError(Exception):
    """A tool call did not give a result."""


def list_tools(turn: DemoTurn) -> list[str]:
    """Return the tool names of all servers."""
    return [name for server in turn.servers() for name in _names(turn, server)]


def call_tool(turn: DemoTurn, name: str, arguments: dict[str, object]) -> str:
    """Return the result text of a tool. Raises `DemoToolError`."""
    server = next((server for server in turn.servers() if name in _names(turn, server)), None)
    if server is None:
        raise DemoToolError(f"unknown tool {name!r}")
    return _text(_call(turn, server, name, arguments))


def _names(turn: DemoTurn, server: McpServer) -> list[str]:
    tag = f"tools of {id(server)}"
    server.when_listed(lambda names: turn.deliver(tag, names))
    names = turn.wait(tag, LIST_TIMEOUT)
    return names if isinstance(names, list) else []


def _call(turn: DemoTurn, server: McpServer, name: str, arguments: dict[str, object]) -> dict[str, object]:
    tag = f"result {turn.outlet.next_id()}"
    params: dict[str, object] = {"name": name, "arguments": arguments}
    if turn.stated is not None:
        params["_meta"] = {"sessionId": turn.stated}
    number = server.request("tools/call", params, lambda frame: turn.deliver(tag, frame))
    answered = False
    try:
        frame = turn.wait(tag, turn.call_timeout)
        answered = frame is not None
    finally:
        if not answered:
            server.give_up(number)
    if not isinstance(frame, dict):
        raise DemoToolError(f"tool {name!r} gave no result within {turn.call_timeout:g} s")
    return frame


def _text(frame: dict[str, object]) -> str:
    error = frame.get("error")
    if isinstance(error, dict):
        raise DemoToolError(str(error.get("message", "refused without a reason")))
    result = frame.get("result")
    if not isinstance(result, dict):
        raise DemoToolError("the server answered without a result")
    text = _content_text(result)
    if result.get("isError"):
        raise DemoToolError(text)
    return text


def _content_text(result: dict[str, object]) -> str:
    content = result.get("content")
    blocks = [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []
    texts = [str(block["text"]) if "text" in block else f"[{block.get('type')}]" for block in blocks]
    if not texts and "structuredContent" in result:
        return json.dumps(result["structuredContent"])
    return "\n".join(texts)
