"""A gateway process under observation: who belongs to it, what it has open, what it weighs."""

import asyncio
import os
import random
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import psutil

from tests.support.serve_command import Command, command
from tests.support.tally import Tally
from tools.faults.clock import WallClock
from tools.faults.gate import Gate

API_KEY = "not-to-be-seen-anywhere-0123456789"
CLIENT_PATIENCE = 4
SETTINGS = {
    "API_KEY": API_KEY,
    "GATEWAY__HOST": "0.0.0.0",
    "GATEWAY__CLIENT_PATIENCE": str(CLIENT_PATIENCE),
    "GATEWAY__TURN_INACTIVITY": "15",
    "GATEWAY__SEAT_IDLE": "2",
    "GATEWAY__SEATS_MAX": "400",
    "GATEWAY__CLIENT_TOOL_DEADLINE": "15",
    "GATEWAY__DRAIN": "5",
    # Ended streams are kept for clients that come back, up to so much: a base could not tell that from a leak.
    "GATEWAY__REPLAY_BYTES": "1000000",
    "AUTH__CONCURRENCY": "4000",
    "AUTH__PER_MINUTE": "1000000",
    "POOL__IDLE_AFTER": "2",
    "POOL__MAX_PROCESSES_PER_KEY": "4",
    "TOOLS__OWN": '["*"]',
}
OF_AN_AGENT = 4
"""Files that the gateway has open for each of its agents: three pipes and a handle of the process."""


@dataclass(frozen=True)
class Weight:
    """What a gateway at rest has."""

    files: int
    """Without those of its agents and of their seats."""
    memory: int
    agents: int
    listed: Counter[str] = field(default_factory=Counter)


@dataclass
class Scene:
    """Everything that an upset may touch."""

    folder: Path
    tally: Tally
    chance: random.Random
    clock: WallClock
    gate: Gate
    inside: bool
    """Whether network and mounts are ours."""
    full_disk: bool
    """Whether the folder is a disk of its own."""
    settings: Mapping[str, str] = field(default_factory=lambda: SETTINGS)
    running: Command | None = None
    base: str = ""

    @property
    def gateway(self) -> Command:
        """The one that runs."""
        assert self.running is not None
        return self.running

    @property
    def pid(self) -> int:
        return self.gateway.process.pid

    @property
    def port(self) -> int:
        return int(self.base.rpartition(":")[2])

    @contextmanager
    def serving(self, *arguments: str) -> Iterator[Command]:
        """A gateway on the folder."""
        environ = {f"OSTLER_{name}": value for name, value in self.settings.items()}
        with command(self.folder, *arguments, whole=True, **environ, **self.clock.environ) as running:
            self.running, self.base = running, running.base.replace("0.0.0.0", "127.0.0.1")
            try:
                yield running
            finally:
                self.running = None

    async def until(self, condition: Callable[[], bool], what: str, seconds: float) -> bool:
        """Wait for something that sends no event."""
        deadline = time.monotonic() + seconds
        while not condition():
            if time.monotonic() > deadline:
                self.tally.broken.append(f"not within {seconds:g} s: {what}")
                return False
            await asyncio.sleep(0.05)
        return True

    @asynccontextmanager
    async def operator(self) -> AsyncIterator[httpx.AsyncClient]:
        """The gateway's own socket, where operators ask."""
        transport = httpx.AsyncHTTPTransport(uds=str(self.folder / "data" / "admin.sock"))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost", timeout=30) as http:
            yield http

    async def processes(self) -> list[dict[str, Any]]:
        """What the pool says of each of its own."""
        async with self.operator() as http:
            shown = (await http.get("/admin/pool")).json()
        return [each for key in shown["keys"] for each in key["processes"]]

    async def seated(self) -> dict[int, int]:
        """By the pid of an agent, how many sessions sit on it."""
        return {each["pid"]: each["leased"] for each in await self.processes()}

    def agents(self) -> list[psutil.Process]:
        """Those of the gateway that runs."""
        return [one for one in self._children() if "agent" in words(one)]

    def relays(self) -> list[psutil.Process]:
        """What the agents launched."""
        return [one for one in self._children() if any("relay" in word for word in words(one))]

    def _children(self) -> list[psutil.Process]:
        with suppress(psutil.NoSuchProcess):
            return psutil.Process(self.pid).children(recursive=True)
        return []

    def strays(self) -> list[str]:
        """Processes that know our folder and are no gateway, whoever their parent is now."""
        mark, found = os.fsencode(self.folder), []
        for entry in Path("/proc").iterdir():
            if entry.name.isdecimal() and int(entry.name) != os.getpid():
                with suppress(OSError):
                    told = (entry / "environ").read_bytes() + (entry / "cmdline").read_bytes()
                    line = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                    if mark in told and (self.running is None or int(entry.name) != self.pid) and line:
                        found.append(f"{entry.name}: {line[:120]}")
        return found

    def weigh(self) -> Weight:
        """Of the gateway, now."""
        agents, relays = len(self.agents()), len(self.relays())
        listed = Counter(kind_of(target) for target in open_files(self.pid))
        # Their directory is held open once, as long as a session is there.
        files = sum(listed.values()) - OF_AN_AGENT * agents - relays - min(listed["work"], 1)
        return Weight(files, psutil.Process(self.pid).memory_info().rss, agents, listed)

    def connections(self, peer: str | None = None) -> int:
        """How many clients the gateway believes to have."""
        with suppress(psutil.NoSuchProcess):
            found = psutil.Process(self.pid).net_connections("tcp")
            return sum(1 for one in found if one.raddr and peer in (None, one.raddr.ip))
        return 0


def words(process: psutil.Process) -> list[str]:
    """Its command line; nothing for one that is gone."""
    with suppress(psutil.Error):
        return process.cmdline() if process.status() != psutil.STATUS_ZOMBIE else []
    return []


def open_files(pid: int) -> Iterator[str]:
    """What each descriptor of a process leads to."""
    for link in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(OSError):
            yield str(link.readlink())


def kind_of(target: str) -> str:
    """`socket` for `socket:[1234]`, a file by its name."""
    return target.partition(":")[0] if ":[" in target or target.startswith("anon") else Path(target).name
