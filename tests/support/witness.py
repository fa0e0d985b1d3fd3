"""Looking at processes, the only witness of what is left behind. Linux.

Rules: a process is pid and start time together, because pids come back. A zombie is gone: whoever must reap it is
another test's business. Ends are awaited by pidfd, not by looking again.
"""

import asyncio
import os
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import psutil

from tests.support.waiting import within


@dataclass(frozen=True, slots=True)
class Witness:
    """A process that was seen alive."""

    pid: int
    started: float
    name: str

    @property
    def alive(self) -> bool:
        """Whether this very process still runs."""
        try:
            process = psutil.Process(self.pid)
            return process.create_time() == self.started and process.status() != psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            return False

    def __str__(self) -> str:
        return f"{self.name}[{self.pid}]"


def witness(pid: int) -> Witness | None:
    """The process of this pid, if there is one."""
    try:
        process = psutil.Process(pid)
        return Witness(pid, process.create_time(), process.name())
    except psutil.NoSuchProcess:
        return None


def tree(pid: int) -> set[Witness]:
    """A process and everything below it, zombies left out."""
    try:
        top = psutil.Process(pid)
        pids = [pid, *(child.pid for child in top.children(recursive=True))]
    except psutil.NoSuchProcess:
        return set()
    return {found for found in map(witness, pids) if found is not None and found.alive}


async def gone(processes: Iterable[Witness], seconds: float = 300.0) -> None:
    """Wait until none of them is left; fail with the names of those that are."""
    waiting = [process for process in processes if process.alive]
    async with within(seconds, f"the end of {', '.join(map(str, waiting))}"):
        await asyncio.gather(*map(exited, waiting))


async def exited(process: Witness) -> None:
    """Wait for the end of one process, by its pidfd."""
    try:
        pidfd = os.pidfd_open(process.pid)
    except ProcessLookupError:
        return
    loop = asyncio.get_running_loop()
    ended = asyncio.Event()
    loop.add_reader(pidfd, ended.set)
    try:
        if process.alive:
            await ended.wait()
    finally:
        loop.remove_reader(pidfd)
        os.close(pidfd)


def open_files(pid: int | None = None) -> dict[int, str]:
    """What a process (by default ours) has open: fd and target."""
    found = {}
    for link in Path(f"/proc/{pid or os.getpid()}/fd").iterdir():
        try:
            found[int(link.name)] = str(link.readlink())
        except FileNotFoundError:
            continue
    return found


def environment(pid: int) -> dict[str, str]:
    """The environment that a process was started with; empty where its own user may not see it (relays)."""
    try:
        raw = Path(f"/proc/{pid}/environ").read_bytes()
    except PermissionError:
        return {}
    pairs = (item.partition(b"=") for item in raw.split(b"\0") if item)
    return {name.decode(): value.decode(errors="replace") for name, _, value in pairs}


def arguments(pid: int) -> list[str]:
    """The argument vector of a process; of one that has ended meanwhile there is none."""
    try:
        raw = Path(f"/proc/{pid}/cmdline").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return []
    return [part.decode(errors="replace") for part in raw.split(b"\0")[:-1]]
