"""The process of a tool server. The only file of the bridge that starts one.

The MCP library starts servers with anyio, which uses the loop's own `create_subprocess_exec`; on uvloop that forks, and
a gateway of 2 GB stands still for 77 ms. `subprocess.Popen` uses vfork and takes 0.2 ms on either loop. So the process
is started here, and the library gets streams. The bridge does not use the reaper of `ostler.process`; `leash.py` does
for a few servers what the reaper does for many agents.
"""

import asyncio
import contextlib
import os
import subprocess
import sys
from collections import deque
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import IO, Final, cast

from ostler.wire.descriptors import restore_open_files
from ostler.wire.pipes import handed
from ostler.wire.redaction import excerpt

LEASH: Final = Path(__file__).with_name("leash.py").resolve()
LINE_LIMIT: Final = 32 * 1024 * 1024
LAST_WORDS: Final = 5
WORDS_LIMIT: Final = 500
INHERITED: Final = ("PATH", "HOME", "USER", "LOGNAME", "LANG", "LC_ALL", "TMPDIR", "SHELL", "TERM")


class Stdin(asyncio.Protocol):
    """The writing end of the server's stdin; `write` waits while the server does not read."""

    def __init__(self) -> None:
        self._writable = asyncio.Event()
        self._writable.set()
        self._transport: asyncio.WriteTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        # A write transport of a pipe; uvloop's is not a subclass, so `isinstance` cannot check it.
        self._transport = cast("asyncio.WriteTransport", transport)

    def connection_lost(self, exc: Exception | None) -> None:  # noqa: ARG002 - why it was lost changes nothing
        self._transport = None
        self._writable.set()

    def pause_writing(self) -> None:
        self._writable.clear()

    def resume_writing(self) -> None:
        self._writable.set()

    async def write(self, line: bytes) -> None:
        await self._writable.wait()
        if self._transport is None:
            raise BrokenPipeError("the tool server's stdin is closed")
        self._transport.write(line)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.close()


class UpstreamProcess:
    """A running server. `stdout` ends when it does."""

    def __init__(self, pid: int, stdin: Stdin, stdout: asyncio.StreamReader) -> None:
        self.pid = pid
        self.stdin = stdin
        self.stdout = stdout
        self._stderr: deque[str] = deque(maxlen=LAST_WORDS)
        self._stderr_ended = asyncio.Event()

    async def last_stderr(self) -> str:
        """The last lines of stderr, which may explain the end. Waits one second: a helper may hold it open."""
        try:
            async with asyncio.timeout(1):
                await self._stderr_ended.wait()
        except TimeoutError:
            self._stderr.append("(its stderr is still open)")
        return " | ".join(self._stderr) or "it said nothing"

    async def read_stderr(self, stderr: asyncio.StreamReader) -> None:
        """Read stderr until its end: a server whose stderr is not read stops when the pipe is full."""
        while True:
            try:
                line = await stderr.readline()
            except ValueError:  # a line above the limit: the reader has dropped it
                continue
            if not line:
                self._stderr_ended.set()
                return
            if text := line.decode(errors="replace").strip():
                self._stderr.append(excerpt(text, WORDS_LIMIT))


@asynccontextmanager
async def running(
    command: tuple[str, ...], *, env: Mapping[str, str], cwd: str | None
) -> AsyncIterator[UpstreamProcess]:
    """Run the server for the duration of the block. Raises `OSError`."""
    popen, control = _start(command, env, cwd)
    try:
        async with contextlib.AsyncExitStack() as pipes:
            stdin, stdout, stderr = await _connected(popen, pipes)
            process = UpstreamProcess(popen.pid, stdin, stdout)
            reading = asyncio.get_running_loop().create_task(process.read_stderr(stderr))
            try:
                yield process
            finally:
                stdin.close()
                os.close(control)
                control = -1
                # Exit of the leash process takes at most its grace; a thread waits for it, also when this task is
                # cancelled. A helper that left the process group may hold stderr open without limit, so reading stops
                # here.
                try:
                    await asyncio.shield(asyncio.get_running_loop().run_in_executor(None, popen.wait))
                finally:
                    reading.cancel()
    finally:
        if control >= 0:
            os.close(control)
            popen.wait()


def environment(extra: Mapping[str, str]) -> dict[str, str]:
    """The variables that any program needs, and the configured ones; none of the gateway's secrets."""
    return {name: os.environ[name] for name in INHERITED if name in os.environ} | dict(extra)


def _start(command: tuple[str, ...], env: Mapping[str, str], cwd: str | None) -> tuple["subprocess.Popen[bytes]", int]:
    theirs, ours = os.pipe()
    try:
        popen = subprocess.Popen(
            [sys.executable, "-I", "-S", "-E", str(LEASH), str(theirs), *command],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
            env=dict(env),
            cwd=cwd,
            pass_fds=(theirs,),
            start_new_session=True,
        )
    except OSError:
        os.close(ours)
        raise
    finally:
        os.close(theirs)
    with contextlib.suppress(ProcessLookupError):
        restore_open_files(popen.pid)  # the leash process is still starting: the server inherits the limit from it
    return popen, ours


async def _connected(
    popen: "subprocess.Popen[bytes]", pipes: contextlib.AsyncExitStack
) -> tuple[Stdin, asyncio.StreamReader, asyncio.StreamReader]:
    assert popen.stdin is not None  # noqa: S101 - requested above; narrows the type
    assert popen.stdout is not None  # noqa: S101 - see above
    assert popen.stderr is not None  # noqa: S101 - see above
    # Registered before the transports, so that the raw pipes are closed when a transport cannot be created.
    raw = pipes.enter_context(contextlib.ExitStack())
    for end in (popen.stdin, popen.stdout, popen.stderr):
        raw.callback(end.close)
    with handed(popen.stdin) as pipe:
        transport, stdin = await asyncio.get_running_loop().connect_write_pipe(Stdin, pipe)
    pipes.callback(transport.close)
    stdout, stderr = await _reader(popen.stdout, pipes), await _reader(popen.stderr, pipes)
    raw.pop_all()
    return stdin, stdout, stderr


async def _reader(end: IO[bytes], pipes: contextlib.AsyncExitStack) -> asyncio.StreamReader:
    reader = asyncio.StreamReader(limit=LINE_LIMIT)
    with handed(end) as pipe:
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(
            lambda: asyncio.StreamReaderProtocol(reader), pipe
        )
    pipes.callback(transport.close)
    return reader
