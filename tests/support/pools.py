"""A real pool over real demo agents, with what a test needs to know of the processes behind it."""

import json
import os
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import psutil

from ostler.pool import PoolSettings, ProviderSettings, TransportKey, TransportPool, open_pool
from ostler.pool.agent.transport import Transport
from ostler.pool.events import Finished, Text, TurnEvent
from ostler.pool.launch.settings import Deadlines
from ostler.pool.lease import Lease
from ostler.pool.observer import Observer
from ostler.pool.ports import ToolPort
from ostler.pool.provider import CloseVerb, ToolChannel
from ostler.pool.providers import load
from tests.support.waiting import eventually


@dataclass
class PoolHarness:
    """One pool and the traces its agents leave."""

    pool: TransportPool
    folder: Path
    record: Path
    settings: PoolSettings
    environ: Mapping[str, str]

    def key(self, name: str = "work", model: str = "demo") -> TransportKey:
        """A key whose directory exists."""
        cwd = self.folder / name
        cwd.mkdir(exist_ok=True)
        return TransportKey("demo", model, str(cwd))

    async def transport(self, key: TransportKey | None = None, deadline: float | None = None) -> Transport:
        """The process that serves a key, started if there is none."""
        return await transport_of(self.pool, key or self.key(), deadline)

    def pids(self) -> set[int]:
        """The agent processes that the pool knows."""
        return {process.pid for process in self.pool.snapshot().processes if process.pid is not None}

    def tree(self) -> list[psutil.Process]:
        """The agent processes and everything below them."""
        return [process for agent in self.pids() for process in (psutil.Process(agent), *below(agent))]

    def relays(self) -> list[psutil.Process]:
        """The tool relays that the agents launched."""
        return [child for agent in self.pids() for child in below(agent) if "relay" in child.cmdline()]

    async def settled(self, condition: Callable[[], bool], deadline: float = 300.0) -> None:
        """Wait until the pool has come to rest in the state that is asked for."""
        await eventually(condition, "the pool in the state that is asked for", deadline)

    def starts(self) -> list[dict[str, Any]]:
        """What every agent process recorded when it came up."""
        if not self.record.exists():
            return []
        lines = [json.loads(line) for line in self.record.read_text().splitlines()]
        return [line for line in lines if "argv" in line]


def demo_settings(record: Path, *flags: str, **settings: Any) -> ProviderSettings:
    """The demo agent with a record and perhaps a fault."""
    return ProviderSettings(args=("--record", str(record), *flags), **settings)


@asynccontextmanager
async def open_pool_harness(
    folder: Path,
    *flags: str,
    tool_port: ToolPort | None = None,
    recycle_after: int | None = None,
    traits: Mapping[str, Any] | None = None,
    observer: Observer | None = None,
    deadlines: Mapping[str, float] | None = None,
    tool_channel: ToolChannel | None = None,
    **settings: Any,
) -> AsyncIterator[PoolHarness]:
    """A started pool; everything it started is gone afterwards."""
    record = folder / "record.jsonl"
    agent = demo_settings(record, *flags, deadlines=Deadlines(**(deadlines or {})), tool_channel=tool_channel)
    pool_settings = PoolSettings(providers={"demo": agent}, **settings)
    environ = {"PATH": os.environ["PATH"], "HOME": str(folder)}
    providers = dict(load())
    providers["demo"] = replace(providers["demo"], **(traits or {}))
    if recycle_after is not None:
        unending = replace(providers["demo"], close=CloseVerb.NONE, recycle_after=recycle_after)
        providers["demo"] = unending
    async with open_pool(
        pool_settings,
        runtime_dir=folder / "run",
        environ=environ,
        tool_port=tool_port,
        providers=providers,
        observer=observer,
    ) as pool:
        yield PoolHarness(pool, folder, record, pool_settings, environ)


async def transport_of(pool: TransportPool, key: TransportKey, deadline: float | None = None) -> Transport:
    """The process that serves a key, started if there is none. The seat by which it is found is given back at once."""
    async with await pool.lease(key, deadline=deadline) as lease:
        return lease.transport


async def say(lease: Lease, prompt: str) -> str:
    """The whole answer to one prompt; AssertionError when the turn does not end well."""
    turn = await lease.prompt(prompt)
    events: list[TurnEvent] = [event async for event in turn]
    end = events[-1]
    assert isinstance(end, Finished)
    assert end.reason.value == "done", end
    return "".join(event.text for event in events if isinstance(event, Text))


def alive(pid: int) -> bool:
    """Whether a process runs; a zombie does not."""
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def below(pid: int) -> list[psutil.Process]:
    """The living descendants of a process."""
    return [child for child in psutil.Process(pid).children(recursive=True) if alive(child.pid)]
