"""A real relay between an agent and a bridge that both say anything: whole lines pass, unchanged, both ways."""

import os
import select
import socket
import subprocess
import sys
import tempfile
from pathlib import Path
from random import Random
from typing import IO

from ostler.bridge.session_binding import RELAY
from tools.fuzz.target import Target

PATIENCE = 20.0
OVER = b"OSTLER/1 over"
LARGE = 300_000


class Pipe:
    """One relay for the whole campaign."""

    def __init__(self, rng: Random) -> None:
        self._rng = rng
        self._folder = tempfile.TemporaryDirectory(prefix="fuzz-")
        path = str(Path(self._folder.name) / "socket")
        listener = socket.socket(socket.AF_UNIX)
        listener.bind(path)
        listener.listen()
        self._process = subprocess.Popen(
            [sys.executable, "-I", "-S", "-E", str(RELAY)],
            env={"OSTLER_BRIDGE_SOCKET": path, "OSTLER_ACP_SESSION_BINDING": "0" * 32},
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0,
        )  # fmt: skip
        listener.settimeout(PATIENCE)
        self._bridge, _ = listener.accept()
        listener.close()
        self._bridge.setblocking(False)
        self._read(self._bridge.fileno(), len(f"OSTLER/1 {self._process.pid} {'0' * 32}\n"))

    def take(self, frame: bytes) -> None:
        line = frame.replace(OVER, b"over") + b"\n"
        if self._rng.random() < 0.02:
            line = line * (LARGE // len(line) + 1)
        self._pass(self._pipe(self._process.stdin), self._bridge.fileno(), line)
        self._pass(self._bridge.fileno(), self._pipe(self._process.stdout), line)

    def end(self) -> None:
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()
        left = self._process.wait(PATIENCE)
        self._bridge.close()
        self._folder.cleanup()
        if left:
            raise AssertionError(f"the relay ended with {left}")

    def _pipe(self, pipe: IO[bytes] | None) -> int:
        assert pipe is not None
        os.set_blocking(pipe.fileno(), False)
        return pipe.fileno()

    def _pass(self, here: int, there: int, line: bytes) -> None:
        """Write on one side and read the same on the other, at the same time: no buffer holds a large one."""
        left, came = memoryview(line), bytearray()
        while len(came) < len(line):
            readable, writable, _ = select.select([there], [here] if left else [], [], PATIENCE)
            if not readable and not writable:
                raise AssertionError(f"the relay stands still after {len(came)} of {len(line)} bytes")
            if writable:
                left = left[os.write(here, left[:65_536]) :]
            if readable:
                data = os.read(there, 1 << 20)
                if not data:
                    raise AssertionError("the relay is gone")
                came += data
        if came != line:
            raise AssertionError(f"the relay made {bytes(came)[:300]!r} of it")

    def _read(self, there: int, many: int) -> bytes:
        data = b""
        while len(data) < many:
            if not select.select([there], [], [], PATIENCE)[0]:
                raise AssertionError("the relay says nothing")
            data += os.read(there, many - len(data))
        return data


TARGET = Target("relay", "mcp", Pipe, heavy=True)
