"""A small codex app-server: says what codex says, in the order codex says it. Run by path; stdlib only.

A turn echoes all it was given, its texts joined by newlines, unless the last of them is an order:

- `recall` answers with the earlier texts of this thread, `closed` with the verbs of close it has heard;
- `wait` says that it does and goes on until it is interrupted, `fail` is refused as a turn of an unknown thread;
- `call` calls the tool `echo` in its own thread's name, `call foreign` in that of another;
- `fork` leaves a child that ignores SIGTERM, in a group of its own and without any environment, and answers its pid.

With `--threads FILE` what was said is kept there, and threads of other processes are resumed; with `--old` their turns
cannot be listed. With `--stubborn` it takes no notice of SIGTERM and of the end of its stdin.
"""

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

CALL = 77
STUBBORN = "trap '' TERM; echo; while :; do sleep 600; done"

Frame = dict[str, Any]


def say(**frame: Any) -> None:
    """One line."""
    sys.stdout.write(json.dumps(frame) + "\n")
    sys.stdout.flush()


class AppServer:
    """The threads of one process."""

    def __init__(self, threads: Path | None, *, old: bool) -> None:
        self._threads = threads
        self._old = old
        self._heard: dict[str, list[str]] = {}
        self._turns = 0
        self._running: dict[str, str] = {}
        self._calling = ("", "")
        self._closed: list[str] = []

    def take(self, frame: Frame) -> None:
        """One frame of the client."""
        params = frame.get("params") or {}
        match frame.get("method"):
            case "initialize":
                assert params["capabilities"]["experimentalApi"]
                say(id=frame["id"], result={"userAgent": "ostler/1.2.3 (x)"})
            case "thread/start":
                thread = f"thread-{len(self._heard) + 1}"
                self._heard[thread] = []
                say(id=frame["id"], result={"thread": {"id": thread}, "model": "m"})
            case "turn/start":
                self._start(frame, params["threadId"], [item["text"] for item in params["input"]])
            case "turn/interrupt":
                self._interrupt(frame, params["threadId"])
            case "thread/resume" if self._threads is not None:
                thread = params["threadId"]
                self._heard[thread] = [text for texts in self._kept()[thread] for text in texts]
                say(id=frame["id"], result={"thread": {"id": thread}, "model": "m"})
            case "thread/turns/list" if not self._old:
                assert params["sortDirection"] == "desc"
                newest = self._kept()[params["threadId"]][: -params["limit"] - 1 : -1]
                say(id=frame["id"], result={"data": [shown(texts) for texts in newest]})
            case "thread/unsubscribe" | "thread/archive" as verb:
                self._closed.append(verb)
                say(id=frame["id"], result={})
            case _ if frame.get("id") == CALL:
                self._called(frame)
            case _ if "id" in frame:
                say(id=frame["id"], error={"code": -32600, "message": "unknown variant"})

    def _start(self, frame: Frame, thread: str, texts: list[str]) -> None:
        if texts[-1] == "fail":
            say(id=frame["id"], error={"code": -32600, "message": f"thread not found: {thread}"})
            return
        self._turns += 1
        turn = f"turn-{self._turns}"
        say(id=frame["id"], result={"turn": {"id": turn}})
        say(method="turn/started", params={"threadId": thread, "turn": {"id": turn}})
        earlier, self._heard[thread] = self._heard[thread], [*self._heard[thread], *texts]
        self._keep(thread, texts)
        match texts[-1]:
            case "wait":
                self._running[thread] = turn
                self._delta(thread, turn, "waiting ")
            case "call":
                self._running[thread] = turn
                self._call(thread, thread, turn)
            case "call foreign":
                self._call(thread, "thread-of-another", turn)
            case "closed":
                self._answer(thread, turn, " ".join(self._closed))
            case "recall":
                self._answer(thread, turn, "\n".join(earlier))
            case "fork":
                self._answer(thread, turn, str(fork()))
            case _:
                self._answer(thread, turn, "\n".join(texts))

    def _kept(self) -> dict[str, list[list[str]]]:
        """The texts of every turn of every thread."""
        kept: dict[str, list[list[str]]] = {}
        if self._threads is not None and self._threads.exists():
            kept = json.loads(self._threads.read_text())
        return kept

    def _keep(self, thread: str, texts: list[str]) -> None:
        if self._threads is not None:
            kept = self._kept()
            self._threads.write_text(json.dumps({**kept, thread: [*kept.get(thread, []), texts]}))

    def _interrupt(self, frame: Frame, thread: str) -> None:
        say(id=frame["id"], result={})
        turn = self._running.pop(thread)
        self._end(thread, turn, "interrupted")
        self._delta(thread, turn, "late ")

    def _call(self, thread: str, named: str, turn: str) -> None:
        self._calling = (thread, turn)
        fields = {"threadId": named, "turnId": turn, "callId": "c", "tool": "echo", "arguments": {}}
        say(id=CALL, method="item/tool/call", params=fields)

    def _called(self, frame: Frame) -> None:
        (thread, turn), result = self._calling, frame.get("result")
        if not result:
            self._answer(thread, turn, frame["error"]["message"])
            return
        item = {"type": "dynamicToolCall", "id": "c", "tool": "echo", "status": "completed"}
        item = {**item, "contentItems": result["contentItems"]}
        say(method="item/completed", params={"threadId": thread, "turnId": turn, "item": item})
        self._answer(thread, turn, result["contentItems"][0]["text"])

    def _answer(self, thread: str, turn: str, text: str) -> None:
        self._delta(thread, turn, text)
        self._end(thread, turn, "completed")

    def _delta(self, thread: str, turn: str, text: str) -> None:
        fields = {"threadId": thread, "turnId": turn, "itemId": "i", "delta": text}
        say(method="item/agentMessage/delta", params=fields)

    def _end(self, thread: str, turn: str, status: str) -> None:
        say(method="turn/completed", params={"threadId": thread, "turn": {"id": turn, "status": status, "items": []}})


def shown(texts: list[str]) -> Frame:
    """A turn as it is listed."""
    asked = {"type": "userMessage", "id": "u", "content": [{"type": "text", "text": text} for text in texts]}
    answered = {"type": "agentMessage", "id": "a", "text": "\n".join(texts)}
    return {"id": "turn-of-another-process", "status": "completed", "items": [asked, answered]}


def fork() -> int:
    """A tool server as codex starts them."""
    child = subprocess.Popen(["/bin/sh", "-c", STUBBORN], env={}, process_group=0, stdout=subprocess.PIPE)
    assert child.stdout is not None
    child.stdout.readline()
    return child.pid


if __name__ == "__main__":
    stubborn = "--stubborn" in sys.argv
    if stubborn:
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
    place = sys.argv[sys.argv.index("--threads") + 1] if "--threads" in sys.argv else None
    server = AppServer(None if place is None else Path(place), old="--old" in sys.argv)
    for line in sys.stdin:
        server.take(json.loads(line))
    while stubborn:
        signal.pause()
