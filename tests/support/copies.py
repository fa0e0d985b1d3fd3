"""The `ostler` command without its imports: a copy of a process that has done them already (`original.py`).

They are two thirds of what a command costs, and always the same. A copy is a process like any other: it has its own
pid, environment, directory, pipes or terminal, it is stopped, interrupted and killed, and its children are its own.
What it does not show is that a start imports what it uses; so at least one test of each command, and all tests of its
first moments, begin with a fresh interpreter.

`Copy` and `run` are what `subprocess.Popen` and `subprocess.run` are for text.
"""

import atexit
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict
from functools import cache
from pathlib import Path
from types import TracebackType
from typing import IO, Self

from tests.support.original import Order

ROOT = Path(__file__).resolve().parents[2]
INHERITED = 0, 1, 2
FRESH = [sys.executable, "-m", "ostler.gateway"]
PIPE, DEVNULL = subprocess.PIPE, subprocess.DEVNULL


class Original:
    """The process that is copied, one for each worker, begun when it is first needed."""

    def __init__(self) -> None:
        self._ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._turn = threading.Lock()
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tests.support.original", str(theirs.fileno())],
                cwd=ROOT,
                env={"PATH": os.environ["PATH"], "LANG": "C.UTF-8"},
                pass_fds=[theirs.fileno()],
            )

    def copy(self, order: Order, descriptors: Sequence[int]) -> tuple[int, int, int]:
        """A running copy: its pid, a descriptor of it, and one that will tell its exit code."""
        with self._turn:
            socket.send_fds(self._ours, [json.dumps(asdict(order)).encode()], descriptors)
            said, (process, end), _, _ = socket.recv_fds(self._ours, 20, 2)
        return int(said), process, end

    def close(self) -> None:
        """It ends by itself when nobody can ask it any more."""
        self._ours.close()
        self._process.wait()


@cache
def original() -> Original:
    """That of this process."""
    made = Original()
    atexit.register(made.close)
    return made


class Copy:
    """One run of `ostler`."""

    stdin: IO[str] | None = None
    stdout: IO[str] | None = None
    stderr: IO[str] | None = None
    returncode: int | None = None

    def __init__(
        self,
        words: Sequence[str],
        *,
        cwd: Path,
        env: Mapping[str, str],
        stdin: int | None = None,
        stdout: int | None = None,
        stderr: int | None = None,
        in_terminal: bool = False,
    ) -> None:
        given: list[int] = []
        made: list[int] = []
        for number, wish in zip(INHERITED, (stdin, stdout, stderr), strict=True):
            if wish is None:
                given.append(number)
            elif wish == PIPE:
                made.append(self._pipe(number))
                given.append(made[-1])
            elif wish == DEVNULL:
                made.append(os.open(os.devnull, os.O_RDWR))
                given.append(made[-1])
            else:
                given.append(wish)
        order = Order(list(words), str(cwd), dict(env), in_terminal)
        self.pid, self._process, self._end = original().copy(order, given)
        for descriptor in made:
            os.close(descriptor)

    def _pipe(self, number: int) -> int:
        """A pipe to one of its streams; the end that is the copy's."""
        reading, writing = os.pipe()
        if number == 0:
            self.stdin = open(writing, "w", encoding="utf-8")  # noqa: SIM115, PTH123 - closed in __exit__
            return reading
        stream = open(reading, encoding="utf-8")  # noqa: SIM115, PTH123 - as above
        if number == 1:
            self.stdout = stream
        else:
            self.stderr = stream
        return writing

    def poll(self) -> int | None:
        """The exit code, if there is one."""
        return self._ended(0)

    def wait(self, timeout: float | None = None) -> int:
        """The exit code, when there is one."""
        code = self._ended(timeout)
        if code is None:
            raise subprocess.TimeoutExpired("ostler", timeout or 0.0)
        return code

    def _ended(self, timeout: float | None) -> int | None:
        if self.returncode is None:
            wait = select.poll()
            wait.register(self._end, select.POLLIN)
            if wait.poll(None if timeout is None else timeout * 1000):
                self.returncode = int(os.read(self._end, 20))
                os.close(self._end)
                os.close(self._process)
        return self.returncode

    def send_signal(self, number: int) -> None:
        """Nothing happens to one that has ended, nor to whoever has its pid now."""
        if self.poll() is None:
            try:
                signal.pidfd_send_signal(self._process, number)
            except ProcessLookupError:
                self.wait()

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def communicate(self, words: str = "", timeout: float | None = None) -> tuple[str, str]:
        """Say this, hear all it says until nobody has its pipes any more, and wait for its end."""
        heard = {"stdout": "", "stderr": ""}

        def hear(name: str, stream: IO[str]) -> None:
            heard[name] = stream.read()

        streams = {"stdout": self.stdout, "stderr": self.stderr}
        readers = [threading.Thread(target=hear, args=each) for each in streams.items() if each[1] is not None]
        for reader in readers:
            reader.start()
        if self.stdin is not None:
            # Who ends without having heard all of it says why by its exit code.
            with suppress(BrokenPipeError):
                self.stdin.write(words)
            with suppress(BrokenPipeError):
                self.stdin.close()
        for reader in readers:
            reader.join(timeout)
            if reader.is_alive():
                self.kill()
                raise subprocess.TimeoutExpired("ostler", timeout or 0.0)
        self.wait(timeout)
        return heard["stdout"], heard["stderr"]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for stream in (self.stdout, self.stderr, self.stdin):
            if stream is not None:
                stream.close()
        self.wait()


def run(
    words: Sequence[str],
    *,
    cwd: Path,
    env: Mapping[str, str],
    given: str | None = None,
    timeout: float = 60.0,
    whole: bool = False,
) -> "subprocess.CompletedProcess[str]":
    """Run it to its end, with this on its standard input if anything; `whole`: with a fresh interpreter."""
    if whole:
        line = [*FRESH, *words]
        said = given or ""
        return subprocess.run(
            line, cwd=cwd, env=env, input=said, capture_output=True, text=True, timeout=timeout, check=False
        )
    stdin = DEVNULL if given is None else PIPE
    with Copy(words, cwd=cwd, env=env, stdin=stdin, stdout=PIPE, stderr=PIPE) as copy:
        said, complained = copy.communicate(given or "", timeout)
        return subprocess.CompletedProcess(["ostler", *words], copy.wait(timeout), said, complained)
