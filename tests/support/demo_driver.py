"""Drives the demo agent as what it is: a subprocess with a line protocol on stdin and stdout.

Rules of this file: every frame in either direction passes the ACP oracle, unless a test asks for faults.
Every wait has a deadline that only a broken agent reaches.
"""

import json
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from queue import Empty, SimpleQueue
from typing import Any, Self

from ostler.demo.launch import command_line
from tests.support.acp_oracle import check_agent_frame, check_client_frame

Frame = dict[str, Any]
PATIENCE = 300.0


class Gone(Exception):
    """The agent closed its stdout; the text is its stderr."""


class Driver:
    """A running demo agent."""

    def __init__(self, *flags: str, state: Path, oracle: bool = True, argv: list[str] | None = None) -> None:
        self.process = subprocess.Popen(
            (argv or command_line([])) + ["--state-dir", str(state), *flags],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            start_new_session=True,
        )
        self.frames: list[Frame] = []
        self.junk: list[bytes] = []
        self.cwd = str(state)
        self._oracle = oracle
        self._pending: dict[int | str, str] = {}
        self._asked: dict[int | str, str] = {}
        self._stderr: list[bytes] = []
        self._lines: SimpleQueue[bytes | None] = SimpleQueue()
        self._number = 0
        self._threads = [threading.Thread(target=job, daemon=True) for job in (self._read, self._drain)]
        for thread in self._threads:
            thread.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()
        for thread in self._threads:
            thread.join(PATIENCE)
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            assert pipe is not None
            pipe.close()

    def write(self, data: bytes) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(data)

    def end_input(self) -> None:
        assert self.process.stdin is not None
        self.process.stdin.close()

    def wait(self) -> int:
        return self.process.wait(PATIENCE)

    def stderr(self) -> str:
        """Return all of stderr. Only for an agent that has ended."""
        self._threads[1].join(PATIENCE)
        return b"".join(self._stderr).decode()

    def send(self, method: str, params: Frame) -> int:
        """Send a request and return its id."""
        self._number += 1
        self._pending[self._number] = method
        self._send({"jsonrpc": "2.0", "id": self._number, "method": method, "params": params})
        return self._number

    def notify(self, method: str, params: Frame) -> None:
        self._send({"jsonrpc": "2.0", "method": method, "params": params})

    def reply(self, number: int | str, result: Frame) -> None:
        self._send({"jsonrpc": "2.0", "id": number, "result": result})

    def frame(self) -> Frame:
        """Return the next frame; lines that are none are kept in `junk`."""
        while True:
            try:
                line = self._lines.get(timeout=PATIENCE)
            except Empty:
                raise AssertionError(f"the agent was silent for {PATIENCE} s") from None
            if line is None:
                raise Gone(self.stderr())
            try:
                frame = json.loads(line)
            except ValueError:
                frame = None
            if not isinstance(frame, dict):
                self.junk.append(line)
                continue
            self._see(frame)
            return frame

    def until(self, number: int) -> tuple[Frame, list[Frame]]:
        """Return the answer to a request, and the frames before it."""
        before: list[Frame] = []
        while True:
            frame = self.frame()
            if frame.get("id") == number and "method" not in frame:
                return frame, before
            before.append(frame)

    def ask(self, method: str, params: Frame) -> Frame:
        """Return the result of a request."""
        answer, _ = self.until(self.send(method, params))
        assert "result" in answer, answer
        return dict(answer["result"])

    def refused(self, method: str, params: Frame) -> Frame:
        """Return the error a request is answered with."""
        answer, _ = self.until(self.send(method, params))
        assert "error" in answer, answer
        return dict(answer["error"])

    def initialize(self) -> Frame:
        return self.ask("initialize", {"protocolVersion": 1, "clientCapabilities": {}})

    def open(self, *servers: Frame) -> str:
        return str(self.ask("session/new", {"cwd": self.cwd, "mcpServers": list(servers)})["sessionId"])

    def begin(self, session: str, *blocks: str | Frame) -> int:
        """Send a prompt and return its id."""
        prompt = [{"type": "text", "text": block} if isinstance(block, str) else block for block in blocks]
        return self.send("session/prompt", {"sessionId": session, "prompt": prompt})

    def prompt(self, session: str, *blocks: str | Frame) -> str:
        """Return the text of a whole turn."""
        answer, before = self.until(self.begin(session, *blocks))
        assert answer["result"]["stopReason"] == "end_turn", answer
        return "".join(texts(before, session))

    def _see(self, frame: Frame) -> None:
        self.frames.append(frame)
        if self._oracle:
            check_agent_frame(frame, self._pending)
        if "method" not in frame:
            self._pending.pop(frame["id"], None)
        elif "id" in frame:
            self._asked[frame["id"]] = frame["method"]

    def _send(self, frame: Frame) -> None:
        if self._oracle:
            check_client_frame(frame, self._asked)
        self.write(json.dumps(frame).encode() + b"\n")

    def _read(self) -> None:
        assert self.process.stdout is not None
        with open(self.process.stdout.fileno(), "rb", closefd=False) as source:
            for line in source:
                self._lines.put(line)
        self._lines.put(None)

    def _drain(self) -> None:
        assert self.process.stderr is not None
        while piece := self.process.stderr.read(1 << 16):
            self._stderr.append(piece)


def updates(frames: list[Frame], kind: str) -> Iterator[Frame]:
    """Yield the updates of one kind."""
    for frame in frames:
        if frame.get("method") == "session/update" and frame["params"]["update"]["sessionUpdate"] == kind:
            yield frame["params"]["update"]


def texts(frames: list[Frame], session: str, kind: str = "agent_message_chunk") -> list[str]:
    """Return the text of each chunk of one session."""
    own = [frame for frame in frames if frame.get("params", {}).get("sessionId") == session]
    return [update["content"]["text"] for update in updates(own, kind)]
