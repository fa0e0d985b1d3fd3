"""A tool server as a child process, spoken to over its stdio.

Rules of this file: one thread per server reads. A server is ended by closing its stdin, then by signals, and is always
reaped. Its environment is its own entry's plus a few variables of the agent: tool servers must not get an agent's keys.
"""

from __future__ import annotations

import os
import threading

from ostler.demo import frames
from ostler.demo.mcp_client import McpError
from ostler.demo.stdio import StdoutWriter, read_lines

TYPE_CHECKING = False
if TYPE_CHECKING:
    import subprocess
    from collections.abc import Callable

    from ostler.demo.mcp_client import McpReply

GRACE = 0.5
INHERITED = ("HOME", "LANG", "PATH", "TERM", "TMPDIR")


class StdioCarrier:
    """One server process and its pipes."""

    def __init__(self, entry: dict[str, object], cwd: str) -> None:
        self._name = frames.text_field(entry, "name")
        self._entry = entry
        self._cwd = cwd
        self._process: subprocess.Popen[bytes] | None = None
        self._outlet: StdoutWriter | None = None

    def open(self, take: McpReply, ended: Callable[[], None]) -> None:
        """Start the process. Raises McpError."""
        process = self._spawn()
        assert process.stdin is not None  # noqa: S101 - it was asked for
        self._process = process
        self._outlet = StdoutWriter(process.stdin.fileno())
        threading.Thread(target=self._read, args=(process, take, ended), name=f"mcp {self._name}", daemon=True).start()

    def send(self, frame: dict[str, object]) -> None:
        if self._outlet is not None:
            self._outlet.send(frame)

    def listen(self) -> None:
        """Nothing to do: the server's notifications arrive on its stdout."""

    def hang_up(self) -> None:
        """Close the server's stdin."""
        if self._process is not None and self._process.stdin is not None:
            try:
                self._process.stdin.close()
            except OSError:  # the server had exited already; nothing is buffered here
                return

    def close(self) -> None:
        """End the server: stdin, then SIGTERM, then SIGKILL."""
        import subprocess  # noqa: PLC0415 - already loaded by the start

        process = self._process
        if process is None:
            return
        self.hang_up()
        for end in (process.terminate, process.kill):
            try:
                process.wait(GRACE)
            except subprocess.TimeoutExpired:
                end()
        process.wait()

    def _spawn(self) -> subprocess.Popen[bytes]:
        import subprocess  # noqa: PLC0415 - costs as much as the interpreter; only sessions with tools need it

        command = frames.text_field(self._entry, "command")
        arguments = self._entry.get("args")
        argv = [command, *(str(argument) for argument in arguments)] if isinstance(arguments, list) else [command]
        try:
            return subprocess.Popen(
                argv,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                cwd=self._cwd,
                env=_environment(self._entry),
                bufsize=0,
            )
        except OSError as error:
            raise McpError(self._name, f"{command} does not start: {error}") from error

    def _read(self, process: subprocess.Popen[bytes], take: McpReply, ended: Callable[[], None]) -> None:
        assert process.stdout is not None  # noqa: S101 - it was asked for
        with open(process.stdout.fileno(), "rb", buffering=1 << 16, closefd=False) as source:
            for line in read_lines(source):
                frame = frames.decode(line)
                if frame is not None:
                    take(frame)
        ended()


def _environment(entry: dict[str, object]) -> dict[str, str]:
    environment = {name: os.environ[name] for name in INHERITED if name in os.environ}
    rows = entry.get("env")
    for row in rows if isinstance(rows, list) else []:
        if isinstance(row, dict):
            environment[frames.text_field(row, "name")] = frames.text_field(row, "value")
    return environment
