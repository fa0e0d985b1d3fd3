"""The record of every frame that the agent read and wrote, for tests: JSON lines appended to one file.

Rules of this file: one write per line on an append-only descriptor, so the processes of a whole pool may share a file.
Environment variables are recorded by name only. Frames are recorded unchanged, tokens of tool servers included: the
file is created with mode 0600.
"""

from __future__ import annotations

import json
import os
import sys
import time


class Recorder:
    """Appends events of this process to a file."""

    def __init__(self, path: str) -> None:
        self._fd = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._pid = os.getpid()

    def started(self) -> None:
        """Record the facts of this process; always its first line."""
        self._write(
            "start",
            ppid=os.getppid(),
            argv=[sys.executable, *sys.orig_argv[1:]],
            env=sorted(os.environ),
            cwd=os.getcwd(),
        )

    def incoming(self, line: bytes, frame: dict[str, object] | None) -> None:
        if frame is None:
            self._write("junk", line=line[:200].decode("utf-8", "replace"), size=len(line))
        else:
            self._write("in", frame=frame)

    def outgoing(self, data: bytes) -> None:
        for line in data.splitlines():
            try:
                self._write("out", frame=json.loads(line))
            except ValueError:
                self._write("out", line=line[:200].decode("utf-8", "replace"), size=len(line))

    def tools(self, session: str, server: str, names: list[str]) -> None:
        """Record a tool list that a session got from one of its servers."""
        self._write("tools", session=session, server=server, tools=names)

    def ended(self, reason: str) -> None:
        self._write("end", reason=reason)

    def _write(self, event: str, **facts: object) -> None:
        entry = {"event": event, "pid": self._pid, "at": time.monotonic(), **facts}
        os.write(self._fd, json.dumps(entry).encode("ascii") + b"\n")
