"""A tiny stdio MCP server, started by agents in contract tests. Standard library only; run by path.

Rules:
- It owns no tool: it says hello on the stage's unix socket with its token and is told the tools; calls go to the stage
  and their answers come back, so that the test sees every call with the token it came by.
- It leaves when stdin ends and never before, like the real relay: an agent does not start it a second time.
"""

import json
import os
import socket
import sys
import threading
from typing import Any

OUT = threading.Lock()


def say(frame: dict[str, object]) -> None:
    with OUT:
        sys.stdout.write(json.dumps({"jsonrpc": "2.0", **frame}) + "\n")
        sys.stdout.flush()


class Tools:
    """The tools as the stage last told them."""

    def __init__(self, stage: "socket.SocketIO") -> None:
        self.definitions: list[object] = []
        self.told = threading.Event()
        self.ready = False
        self._stage = stage

    def follow(self) -> None:
        for line in self._stage:
            frame = json.loads(line)
            if "tools" in frame:
                self.definitions = frame["tools"]
                self.told.set()
                if self.ready:
                    say({"method": "notifications/tools/list_changed"})
            else:
                say(frame)

    def tell(self, frame: dict[str, object]) -> None:
        self._stage.write(json.dumps(frame).encode() + b"\n")


def answer(tools: Tools, frame: dict[str, Any]) -> None:
    number, method, params = frame.get("id"), frame.get("method"), frame.get("params") or {}
    if method == "initialize":
        server = {"name": "stage", "version": "1"}
        capabilities = {"tools": {"listChanged": True}}
        version = params.get("protocolVersion", "2025-06-18")
        say({"id": number, "result": {"protocolVersion": version, "capabilities": capabilities, "serverInfo": server}})
    elif method == "tools/list":
        tools.told.wait(300)
        say({"id": number, "result": {"tools": tools.definitions}})
        tools.ready = True
        tools.tell({"listed": True})
    elif method == "tools/call":
        asked = {"name": params["name"], "arguments": params.get("arguments") or {}, "meta": params.get("_meta") or {}}
        tools.tell({"call": number, **asked})
    elif method == "ping":
        say({"id": number, "result": {}})
    elif number is not None:
        say({"id": number, "error": {"code": -32601, "message": f"no method {method}"}})


def main() -> None:
    connection = socket.socket(socket.AF_UNIX)
    connection.connect(os.environ["STAGE_SOCKET"])
    tools = Tools(connection.makefile("rwb", buffering=0))
    tools.tell({"token": os.environ["STAGE_TOKEN"], "pid": os.getpid()})
    threading.Thread(target=tools.follow, daemon=True).start()
    for line in sys.stdin:
        answer(tools, json.loads(line))


if __name__ == "__main__":
    main()
