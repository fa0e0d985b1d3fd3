"""What all scenes stand on: one installed gemini, one fake model, a primed HOME, and the same tools for everybody.

Rules:
- The agent is started by product code or by the plain client with the very same command and environment: `launch` is
  asked by both.
- The HOME has been used once: the first start ever on a HOME is slower, and nobody's figure should contain it.
- Every relay is the real one, on a real bridge, whoever launches it.
"""

import asyncio
import os
import shutil
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from pathlib import Path
from tempfile import mkdtemp
from time import perf_counter

import psutil

from ostler.bridge.calls import CallResult, ToolCall
from ostler.bridge.server import Bridge
from ostler.bridge.settings import BridgeSettings
from ostler.pool import Lease, PoolSettings, ProviderSettings, ToolSet, TransportKey, TransportPool, open_pool
from ostler.pool.events import Finished, Text
from ostler.pool.launch.builder import Launch, launch
from ostler.pool.observer import NoPoolObserver
from ostler.pool.provider import Provider
from ostler.pool.providers import load
from ostler.process.tree import measure
from tools.agents.recipes import RECIPES, Place

GEMINI = "gemini-acp"
MODEL = "gemini-2.5-flash"
WHOAMI = {"name": "whoami", "description": "says whose call this is", "inputSchema": {"type": "object"}}
TOOLS = ToolSet((WHOAMI,))
MIB = 1 << 20


async def whoami(call: ToolCall) -> CallResult:
    """The one tool: it tells sessions apart."""
    return CallResult.text(f"whoami of {call.context}")


@dataclass
class Ground:
    """Where the agents are and live."""

    folder: Path
    install: Path
    llm: str
    quick: bool
    acpx: Path | None = None
    """Where the rival is installed, if it could be."""
    provider: str = GEMINI
    model: str = MODEL
    homes: int = 0
    crowd_apart: tuple[float, ...] = ()
    """Seconds of each of a crowd of plain clients that all start at once; measured by the first scene that asks."""

    @property
    def work(self) -> str:
        """The directory that every session works in."""
        return str(self.folder / "work")

    @property
    def key(self) -> TransportKey:
        return TransportKey(self.provider, self.model, self.work)

    def settings(self, home: str = "home") -> ProviderSettings:
        """The agent on this HOME."""
        folder = self.folder / home
        folder.mkdir(exist_ok=True)
        if self.provider not in RECIPES:
            return ProviderSettings(home=str(folder))
        return RECIPES[self.provider](Place(self.install, folder, self.llm)).settings

    def primed_home(self) -> str:
        """A copy of the HOME that was used once."""
        self.homes += 1
        name = f"home-{self.homes}"
        shutil.copytree(self.folder / "home", self.folder / name, dirs_exist_ok=True)
        return name

    def launch(self, home: str = "home") -> Launch:
        """The command and environment of one process."""
        return launch(load()[self.provider], self.settings(home), self.key, os.environ)


class Openings(NoPoolObserver):
    """An observer that keeps how long the agent took to open each session, and how many processes started."""

    def __init__(self) -> None:
        self.seconds: list[float] = []
        self.processes = 0

    def started(self, provider: str, outcome: str, phase: str, seconds: float) -> None:
        del provider, phase, seconds
        self.processes += outcome == "started"

    def opened(self, provider: str, outcome: str, seconds: float) -> None:
        del provider, outcome
        self.seconds.append(seconds)


@dataclass
class House:
    """A bridge and a pool, introduced as the gateway does it."""

    pool: TransportPool
    bridge: Bridge
    watched: Openings = field(default_factory=Openings)

    def publish(self, lease: Lease, who: str, tools: ToolSet = TOOLS) -> None:
        """Give a seat its tools."""
        ticket = lease.ticket
        assert ticket is not None
        ticket.publish(tools.definitions, whoami, who)

    def pids(self) -> list[int]:
        """The agent processes that the pool knows."""
        return [one.pid for one in self.pool.snapshot().processes if one.pid is not None]

    def pss(self) -> int:
        """Bytes of all process trees of the pool, relays included."""
        return tree_pss(self.pids())

    async def settled(self, condition: Callable[[], bool], seconds: float = 60.0) -> None:
        """Wait for a state of the pool."""
        async with asyncio.timeout(seconds):
            while not condition():  # noqa: ASYNC110 (the state is that of other processes, which sends no event)
                await asyncio.sleep(0.005)

    def parked(self) -> int:
        return self.pool.snapshot().core.census.parked


@asynccontextmanager
async def open_house(
    ground: Ground, settings: PoolSettings, *, traits: Mapping[str, object] | None = None, demo: tuple[str, ...] = ()
) -> AsyncIterator[House]:
    """A started house; `traits` change the declaration of the agent for this scene."""
    folder = Path(mkdtemp(prefix="house-", dir=ground.folder))
    bridge = Bridge(BridgeSettings(data_directory=folder))
    await bridge.start()
    known: dict[str, Provider] = dict(load())
    if traits:
        known[ground.provider] = replace(known[ground.provider], **traits)  # type: ignore[arg-type] # names of its own fields
    mine = {"demo": ProviderSettings(args=demo), ground.provider: ground.settings()}
    watched = Openings()
    try:
        async with open_pool(
            replace(settings, providers=mine),
            runtime_dir=folder / "run",
            environ={**os.environ, "HOME": str(folder)},
            tool_port=bridge,
            providers=known,
            observer=watched,
        ) as pool:
            yield House(pool, bridge, watched)
    finally:
        await bridge.stop()


async def first_text(lease: Lease, prompt: str) -> tuple[float, str]:
    """When the first piece of the answer came (by `perf_counter`), and the whole answer."""
    first, said = 0.0, []
    turn = await lease.prompt(prompt)
    async for event in turn:
        if isinstance(event, Text):
            first = first or perf_counter()
            said.append(event.text)
        elif isinstance(event, Finished) and event.reason.value != "done":
            raise AssertionError(f"the turn ended with {event}")
    return first or perf_counter(), "".join(said)


def agents() -> list[int]:
    """Every gemini that lives below us, also one that has not yet shaken hands."""
    found: list[int] = []
    for child in psutil.Process().children():
        with suppress(psutil.NoSuchProcess):
            found += [child.pid] if "--acp" in child.cmdline() else []
    return found


def tree_pss(pids: list[int]) -> int:
    """Bytes of these processes and everything below them."""
    family: set[int] = set(pids)
    for pid in pids:
        try:
            family |= {child.pid for child in psutil.Process(pid).children(recursive=True)}
        except psutil.NoSuchProcess:
            continue
    return measure(family).pss
