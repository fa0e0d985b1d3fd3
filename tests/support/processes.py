"""Scripted children and what tests ask about them. Real processes, found and judged by `/proc`."""

import asyncio
import os
import select
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

from ostler.process import AgentProcess, Command, Exit, ProcessIdentity, ProcessSupervisor, build_environment
from ostler.process.reaper.proc import is_alive, read_stat, take_census

STUBBORN = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
# Each prints the pid of what it leaves behind, then sits.
FORKS_STUBBORN = f"""
import os, sys, time
if (pid := os.fork()) == 0:
    {STUBBORN}
    print(os.getpid(), flush=True)
    time.sleep(600)
time.sleep(600)
"""
DOUBLE_FORKS = """
import os, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        print(os.getpid(), flush=True)
        null = os.open(os.devnull, os.O_RDWR)
        for number in range(3):
            os.dup2(null, number)
        time.sleep(600)
    os._exit(0)
time.sleep(600)
"""
# Like a tool server of codex: its own environment, its own group, but the session of its agent.
OWN_GROUP_BARE = """
import os, subprocess, sys, time
tool = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], env={}, process_group=0)
print(tool.pid, flush=True)
time.sleep(600)
"""
# In a session of its own, without our marker, and its agent is gone: only what it holds tells whose it is.
LEAVES_A_STRANGER = """
import os, sys
told, tell = os.pipe()
if os.fork() == 0:
    os.setsid()
    os.dup2(tell, 9)
    os.execve("/bin/sh", ["sh", "-c", "echo $$ > stranger; echo >&9; exec 9>&-; exec sleep 600"], {})
os.close(tell)
os.read(told, 1)
"""
ESCAPES = {"fork": FORKS_STUBBORN, "daemon": DOUBLE_FORKS, "bare": OWN_GROUP_BARE}


class Recorder:
    """A listener that remembers, and wakes whoever waits for something it has heard."""

    def __init__(self) -> None:
        self.out = bytearray()
        self.levels: list[bool] = []
        self.exits: list[Exit] = []
        self._heard = asyncio.Event()

    def stdout_received(self, data: bytes) -> None:
        self.out += data
        self._heard.set()

    def writable(self, ok: bool) -> None:
        self.levels.append(ok)
        self._heard.set()

    def process_exited(self, exit: Exit) -> None:  # noqa: A002 (the protocol's name)
        self.exits.append(exit)
        self._heard.set()

    async def until(self, condition: Callable[[], bool], within: float = 300.0) -> None:
        async with asyncio.timeout(within):
            while not condition():
                self._heard.clear()
                await self._heard.wait()

    async def line(self) -> str:
        await self.until(lambda: b"\n" in self.out)
        line, _, rest = bytes(self.out).partition(b"\n")
        self.out[:] = rest
        return line.decode()

    async def exited(self) -> Exit:
        await self.until(lambda: bool(self.exits))
        return self.exits[0]


def python(code: str, cwd: Path, **extra: str) -> Command:
    return Command(
        (sys.executable, "-S", "-c", code), cwd, build_environment(os.environ, extra=extra), label="scripted"
    )


@asynccontextmanager
async def running(code: str, cwd: Path, supervisor: ProcessSupervisor) -> AsyncIterator[tuple[AgentProcess, Recorder]]:
    listener = Recorder()
    process = await AgentProcess.start(python(code, cwd), listener, supervisor=supervisor)
    try:
        yield process, listener
    finally:
        await process.stop()


def identify(pid: int) -> ProcessIdentity:
    stat = read_stat(pid)
    assert stat is not None, f"pid {pid} is gone"
    return stat.identity


def kill_unheard(pid: int) -> None:
    """Dead when this returns, and no event loop of ours has had a chance to hear of it."""
    pin = os.pidfd_open(pid)
    try:
        signal.pidfd_send_signal(pin, signal.SIGKILL)
        end = select.poll()
        end.register(pin, select.POLLIN)
        assert end.poll(10_000), f"{pid} does not die"
    finally:
        os.close(pin)


def alive(identity: ProcessIdentity) -> bool:
    return is_alive(identity)


def marked(mark: str) -> list[int]:
    census = take_census(0)
    return [pid for pid in census.marked(mark) if not census.table[pid].dead]
