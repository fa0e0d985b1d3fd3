"""A hostile agent: ACP on its pipes, and on `!flood KIND COUNT` as much of one thing as it can write.

It runs at a lower priority than the gateway: what is measured is the gateway's loop, not the scheduler of two cores.
"""

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

MIB = 1 << 20
Frame = dict[str, Any]
relays: dict[str, "subprocess.Popen[bytes]"] = {}


def write(data: bytes) -> None:
    """All of it."""
    view = memoryview(data)
    while view:
        view = view[os.write(1, view) :]


def line(frame: Frame) -> bytes:
    """One message."""
    return json.dumps({"jsonrpc": "2.0", **frame}).encode() + b"\n"


def update(session: str, **fields: object) -> bytes:
    """One update of a session."""
    return line({"method": "session/update", "params": {"sessionId": session, "update": fields}})


def text(session: str, words: str, kind: str = "agent_message_chunk") -> bytes:
    """A piece of an answer."""
    return update(session, sessionUpdate=kind, content={"type": "text", "text": words})


def calls(session: str, count: int) -> Iterator[bytes]:
    """Tool calls that end."""
    for number in range(count):
        yield update(session, sessionUpdate="tool_call", toolCallId=f"c{number}", title="read", rawInput={"path": "x"})
        yield update(session, sessionUpdate="tool_call_update", toolCallId=f"c{number}", status="completed")


def open_calls(session: str, count: int) -> Iterator[bytes]:
    """Tool calls that never end."""
    for number in range(count):
        yield update(session, sessionUpdate="tool_call", toolCallId=f"c{number}", title="read", rawInput={"path": "x"})


def permissions(session: str, count: int) -> Iterator[bytes]:
    """Questions, without a wait for any answer."""
    options = [{"optionId": "yes", "name": "Yes", "kind": "allow_once"}]
    for number in range(count):
        asked = {"sessionId": session, "options": options, "toolCall": {"toolCallId": f"p{number}", "title": "write"}}
        yield line({"id": f"q{number}", "method": "session/request_permission", "params": asked})


def deltas(session: str, count: int) -> Iterator[bytes]:
    """Tiny pieces of text."""
    piece = text(session, "x")
    return (piece for _ in range(count))


def thoughts(session: str, count: int) -> Iterator[bytes]:
    """Text and thought by turns, so that every piece is an item of its own."""
    pieces = text(session, "x", "agent_thought_chunk") + text(session, "x")
    return (pieces for _ in range(count // 2))


def plans(session: str, count: int) -> Iterator[bytes]:
    """The whole plan, again and again."""
    plan = update(session, sessionUpdate="plan", entries=[{"content": "x"}] * 20)
    return (plan for _ in range(count))


def big_line(session: str, mebibytes: int) -> Iterator[bytes]:
    """One line."""
    yield text(session, "x" * (mebibytes * MIB))


def eight_mib_lines(session: str, count: int) -> Iterator[bytes]:
    """Lines of 8 MiB."""
    piece = text(session, "x" * (8 * MIB))
    return (piece for _ in range(count))


def values(session: str, mebibytes: int) -> Iterator[bytes]:
    """One line of tiny values."""
    yield update(session, sessionUpdate="tool_call", toolCallId="v", title="v", rawInput="@").replace(
        b'"@"', b"[" + b"{}," * (mebibytes * MIB // 3) + b"0]"
    )


def junk(_session: str, count: int) -> Iterator[bytes]:
    """Lines that are no messages."""
    return (b"a\n" * 1000 for _ in range(count // 1000))


def blank(_session: str, mebibytes: int) -> Iterator[bytes]:
    """Newlines."""
    return (b"\n" * MIB for _ in range(mebibytes))


def requests(session: str, count: int) -> Iterator[bytes]:
    """Requests that nobody offers."""
    for number in range(count):
        yield line({"id": number, "method": "fs/read_text_file", "params": {"sessionId": session, "path": "/x"}})


WRITERS = (calls, open_calls, permissions, deltas, thoughts, plans, big_line, eight_mib_lines, values, junk, blank)
FLOODS: dict[str, Callable[[str, int], Iterator[bytes]]] = {each.__name__: each for each in (*WRITERS, requests)}


def on_stderr(long: int, mebibytes: int) -> None:
    """Lines of this length."""
    lines = (b"e" * long + b"\n") * (MIB // (long + 1))
    for _ in range(mebibytes):
        os.write(2, lines)


def begin_relay(session: str, server: Frame) -> None:
    """The session's own tool server, with its tools listed; what it says is dropped."""
    environ = {**os.environ, **{pair["name"]: pair["value"] for pair in server["env"]}}
    argv = [server["command"], *server["args"]]
    relay = relays[session] = subprocess.Popen(argv, env=environ, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)
    tell(relay, line({"id": "i", "method": "initialize", "params": {"protocolVersion": "2025-06-18"}}))
    tell(relay, line({"method": "notifications/initialized"}) + line({"id": "l", "method": "tools/list"}))


def tell(relay: "subprocess.Popen[bytes]", data: bytes) -> None:
    """At once."""
    assert relay.stdin is not None
    relay.stdin.write(data)
    relay.stdin.flush()


def through_the_relay(session: str, count: int) -> None:
    """Requests to the session's own tool server, written as fast as it takes them."""
    pings = b"".join(line({"id": number, "method": "ping"}) for number in range(100))
    for _ in range(count // 100):
        tell(relays[session], pings)


def flood(session: str, kind: str, count: int) -> None:
    """As it was told."""
    if kind == "stderr":
        on_stderr(100, count)
    elif kind == "long_stderr":
        on_stderr(3000, count)
    elif kind == "mcp":
        through_the_relay(session, count)
    else:
        held = bytearray()
        for piece in FLOODS[kind](session, count):
            held += piece
            if len(held) > 65536:
                write(bytes(held))
                held.clear()
        write(bytes(held))


def prompted(asked: object, session: str, words: str) -> None:
    """One turn."""
    order = next((each for each in words.splitlines() if each.startswith("!flood ")), None)
    if order is not None:
        _, kind, count = order.split()
        flood(session, kind, int(count))
    write(text(session, "done") + line({"id": asked, "result": {"stopReason": "end_turn"}}))


def main() -> None:
    """Until stdin ends."""
    os.nice(10)
    opened = 0
    for said in sys.stdin.buffer:
        frame = json.loads(said)
        method, params = frame.get("method"), frame.get("params", {})
        if method == "initialize":
            answer: Frame = {"protocolVersion": 1, "agentCapabilities": {"sessionCapabilities": {"close": {}}}}
        elif method == "session/new":
            opened += 1
            answer = {"sessionId": f"s{opened}"}
            for server in params["mcpServers"]:
                begin_relay(f"s{opened}", server)
        elif method == "session/prompt":
            words = "\n".join(block.get("text", "") for block in params["prompt"])
            threading.Thread(target=prompted, args=(frame["id"], params["sessionId"], words), daemon=True).start()
            continue
        elif method is None or "id" not in frame:
            continue
        else:
            answer = {}
        write(line({"id": frame["id"], "result": answer}))
    for relay in relays.values():
        relay.kill()


if __name__ == "__main__":
    main()
