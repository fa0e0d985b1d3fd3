"""Stands between acplint 0.1.0 and an agent, and turns its dialect into the official schema and back.

acplint takes the protocol version for the string "1", sends a prompt as `content`, and knows session
updates by their camelCase names. The official schema (see acp_oracle.py) has a number, `prompt` and
snake_case, so an agent that pleased acplint as it is would be wrong for everybody else. Run as a file:
python acplint_dialect.py COMMAND...
"""

import json
import subprocess
import sys
import threading
from typing import Any


def to_schema(frame: dict[str, Any]) -> dict[str, Any]:
    params = frame.get("params", {})
    if frame.get("method") == "initialize":
        params["protocolVersion"] = int(params["protocolVersion"])
    if frame.get("method") == "session/prompt" and "content" in params:
        params["prompt"] = params.pop("content")
    return frame


def to_dialect(frame: dict[str, Any]) -> dict[str, Any]:
    if "protocolVersion" in frame.get("result", {}):
        frame["result"]["protocolVersion"] = str(frame["result"]["protocolVersion"])
    if frame.get("method") == "session/update":
        update = frame["params"]["update"]
        first, *rest = update["sessionUpdate"].split("_")
        update["sessionUpdate"] = first + "".join(word.title() for word in rest)
    return frame


def main() -> int:
    agent = subprocess.Popen(sys.argv[1:], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert agent.stdin is not None
    assert agent.stdout is not None

    def forward() -> None:
        for line in sys.stdin.buffer:
            agent.stdin.write(json.dumps(to_schema(json.loads(line))).encode() + b"\n")
            agent.stdin.flush()
        agent.stdin.close()

    threading.Thread(target=forward, daemon=True).start()
    for line in agent.stdout:
        sys.stdout.write(json.dumps(to_dialect(json.loads(line))) + "\n")
        sys.stdout.flush()
    return agent.wait()


if __name__ == "__main__":
    sys.exit(main())
