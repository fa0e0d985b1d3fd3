"""`ostler serve` as an operator runs it: a process of its own, watched from outside.

It is a copy that skips the imports (`copies.py`), where nobody asks for a `whole` start.
"""

import json
import os
import re
import signal
import subprocess
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import psutil

from tests.support import copies
from tests.support.copies import Copy
from tests.support.plain_http import NO_AUTHORITIES

ADDRESS = re.compile(r"http://[^\s;]+")


@dataclass
class Command:
    """The running command."""

    process: "subprocess.Popen[str] | Copy"
    base: str
    said: list[str] = field(default_factory=list)
    logged: list[dict[str, Any]] = field(default_factory=list)
    reader: threading.Thread | None = None

    def http(self) -> httpx.Client:
        """A client for it."""
        return httpx.Client(base_url=self.base, timeout=300, trust_env=False, verify=NO_AUTHORITIES)

    def events(self, name: str) -> list[dict[str, Any]]:
        """Log records of one event."""
        return [line for line in self.logged if line.get("event") == name]

    def agents(self) -> list[psutil.Process]:
        """The demo agents it has started. Until a process they start has its own program, it looks like its parent."""
        descendants = psutil.Process(self.process.pid).children(recursive=True)
        found = {child.pid: child for child in descendants if is_demo(child)}
        return [child for child in found.values() if parent_of(child) not in found]

    def end(self, number: int = signal.SIGTERM, seconds: float = 300) -> int:
        """Send a signal and wait for the exit code; all log lines are read then."""
        self.process.send_signal(number)
        code = self.process.wait(seconds)
        if self.reader is not None:
            self.reader.join(10)
        return code


def parent_of(process: psutil.Process) -> int | None:
    """Its parent; None if it has ended."""
    try:
        return process.ppid()
    except psutil.NoSuchProcess:
        return None


def is_demo(process: psutil.Process) -> bool:
    """Whether it is a living demo agent."""
    try:
        return any("demo" in word for word in process.cmdline())
    except psutil.NoSuchProcess:
        return False


def environment(folder: Path, given: Mapping[str, str]) -> dict[str, str]:
    """Nothing of the tester's but the path. It remembers only where it is told to."""
    quiet = {"OSTLER_LOG__FORMAT": "json", "OSTLER_MEMORY__ENABLED": "false"}
    quiet["OSTLER_LOG__LEVELS"] = '{"ostler.turns": "debug"}'
    return {"PATH": os.environ["PATH"], "HOME": str(folder), **quiet, **given}


def serve_words(folder: Path, arguments: Sequence[str]) -> list[str]:
    """`ostler serve` on a free port."""
    return ["serve", "--port", "0", "--data-dir", str(folder / "data"), *arguments]


def serve_line(folder: Path, arguments: Sequence[str]) -> list[str]:
    """The same, with a fresh interpreter."""
    return [*copies.FRESH, *serve_words(folder, arguments)]


def begun(
    folder: Path, arguments: Sequence[str], environ: Mapping[str, str], *, whole: bool
) -> "subprocess.Popen[str] | Copy":
    """Started, with a pipe to read from each of its outputs."""
    env, pipe = environment(folder, environ), subprocess.PIPE
    if whole:
        return subprocess.Popen(serve_line(folder, arguments), cwd=folder, env=env, stdout=pipe, stderr=pipe, text=True)
    return Copy(serve_words(folder, arguments), cwd=folder, env=env, stdout=pipe, stderr=pipe)


@contextmanager
def command(folder: Path, *arguments: str, whole: bool = False, **environ: str) -> Iterator[Command]:
    """`ostler serve` on a free port, ready to answer; killed at the end if it still runs."""
    process = begun(folder, arguments, environ, whole=whole)
    assert process.stdout is not None
    reader: threading.Thread | None = None
    try:
        first = process.stdout.readline()
        found = ADDRESS.search(first)
        assert found is not None, (first, process.communicate(timeout=300))
        running = Command(process, found[0], [first])
        reader = running.reader = threading.Thread(target=read_log, args=(process, running.logged), daemon=True)
        reader.start()
        answering(running)
        yield running
    finally:
        process.kill()
        process.wait()
        if reader is not None:
            reader.join(10)
        process.stdout.close()


def read_log(process: "subprocess.Popen[str] | Copy", logged: list[dict[str, Any]]) -> None:
    """Every line of stderr, until it ends."""
    assert process.stderr is not None
    with process.stderr as lines:
        logged.extend(json.loads(line) if line.startswith("{") else {"text": line} for line in lines)


def answering(running: Command) -> None:
    """The listener exists before the first line is printed, so one request that waits long enough will do."""
    with running.http() as http:
        assert http.get("/healthz").status_code == 200


def refused(folder: Path, *arguments: str, **environ: str) -> "subprocess.CompletedProcess[str]":
    """Run it where it must not start."""
    return copies.run(serve_words(folder, arguments), cwd=folder, env=environment(folder, environ), timeout=300)
