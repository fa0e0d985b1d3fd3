"""A tool server in a few lines, standard library only: quick to start, and it does what it is told.

Its tools: `echo`, `whoami` (its pid), `die`, `hold` (never answers), `grow` (one tool more, and says so), `spawn` (a
helper that ignores SIGTERM; returns its pid), `escape` (one that also leaves the group), `env` (its names).
With `--mute` it answers nothing; with `--die` it ends at once with some words on stderr; with `--huge` it has a tool
with a number that no agent can be told.
"""

import json
import os
import signal
import subprocess
import sys
from typing import Any

STUBBORN = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print(flush=True); time.sleep(600)"
TOOLS = ["echo", "whoami", "die", "hold", "grow", "spawn", "escape", "env"]


def tell(**message: Any) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", **message}) + "\n")
    sys.stdout.flush()


def call(name: str, arguments: dict[str, Any]) -> str | None:
    match name:
        case "echo":
            return str(arguments.get("text", ""))
        case "whoami":
            return str(os.getpid())
        case "die":
            sys.stderr.write("dying as told, password=hunter2hunter2\n")
            sys.stderr.flush()
            os._exit(3)
        case "grow":
            TOOLS.append(f"more{len(TOOLS)}")
            tell(method="notifications/tools/list_changed")
            return "grown"
        case "spawn" | "escape":
            helper = subprocess.Popen(
                [sys.executable, "-c", STUBBORN],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                start_new_session=name == "escape",
            )
            assert helper.stdout is not None
            helper.stdout.read(1)
            return str(helper.pid)
        case "env":
            return json.dumps(sorted(os.environ))
    return None


def serve() -> None:
    for line in sys.stdin:
        message = json.loads(line)
        ident, params = message.get("id"), message.get("params") or {}
        match message.get("method"):
            case "initialize":
                about = {"protocolVersion": "2025-06-18", "serverInfo": {"name": "small", "version": "0"}}
                tell(id=ident, result={**about, "capabilities": {"tools": {"listChanged": True}}})
            case "tools/list":
                schema: dict[str, Any] = {"type": "object"}
                tools = [{"name": name, "inputSchema": schema} for name in TOOLS]
                if "--huge" in sys.argv:
                    tools.append({"name": "huge", "inputSchema": {**schema, "maxProperties": 2**64}})
                tell(id=ident, result={"tools": tools})
            case "tools/call":
                said = call(params["name"], params.get("arguments") or {})
                if said is not None:
                    tell(id=ident, result={"content": [{"type": "text", "text": said}], "isError": False})
            case _ if ident is not None:
                tell(id=ident, error={"code": -32601, "message": "method not found"})


if __name__ == "__main__":
    if "--die" in sys.argv:
        sys.exit("cannot find the licence")
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if "--mute" in sys.argv:
        sys.stdin.read()
    else:
        serve()
