"""A tiny MCP server on stdio, as a peer for the demo agent's client. Run as a file; stdlib only.

Tools: `add` (a + b), `token` (its TOKEN variable), `boom` (isError), `wait` (never answers), `grow` (adds
the tool `extra` and announces it). One tool per page. Every frame it reads is appended to the file named by
LOG.
"""

import json
import os
import sys
from pathlib import Path

TOOLS = ["add", "boom", "grow", "token", "wait"]


def main() -> None:
    with Path(os.environ.get("LOG", os.devnull)).open("a", buffering=1, encoding="utf-8") as log:
        for line in sys.stdin:
            log.write(line)
            frame = json.loads(line)
            if "method" in frame and "id" in frame:
                serve(frame["id"], frame["method"], frame.get("params") or {})


def serve(number: object, method: str, params: dict) -> None:
    if method == "initialize":
        answer(number, protocolVersion="2025-06-18", capabilities={"tools": {}}, serverInfo=IDENTITY)
        send({"jsonrpc": "2.0", "id": "peer-ping", "method": "ping"})
    elif method == "tools/list":
        page = int(params.get("cursor", 0))
        rest = {"nextCursor": str(page + 1)} if page + 1 < len(TOOLS) else {}
        answer(number, tools=[{"name": TOOLS[page], "inputSchema": {"type": "object"}}], **rest)
    elif method == "tools/call":
        call(number, params["name"], params["arguments"])


def call(number: object, name: str, arguments: dict) -> None:
    if name == "add":
        text(number, str(arguments["a"] + arguments["b"]))
    elif name == "token":
        text(number, os.environ.get("TOKEN", "none"))
    elif name == "boom":
        text(number, "it went wrong", isError=True)
    elif name == "grow":
        TOOLS.append("extra")
        send({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"})
        text(number, "grown")


def text(number: object, words: str, **more: object) -> None:
    answer(number, content=[{"type": "text", "text": words}], **more)


def answer(number: object, **result: object) -> None:
    send({"jsonrpc": "2.0", "id": number, "result": result})


def send(frame: dict) -> None:
    sys.stdout.write(json.dumps(frame) + "\n")
    sys.stdout.flush()


IDENTITY = {"name": "peer", "version": "1"}

if __name__ == "__main__":
    main()
