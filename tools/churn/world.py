"""A pool and a bridge over demo agents, with one kind that can end sessions and one that cannot, and the checks that
must hold at every moment: what the core says, what the shell holds, and what the system's process table shows.
"""

import asyncio
import gc
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

import psutil

from ostler.bridge.calls import CallResult, ToolCall
from ostler.bridge.server import Bridge
from ostler.bridge.settings import BridgeSettings
from ostler.pool import (
    Lease,
    Limits,
    PoolSettings,
    ProviderSettings,
    ToolSet,
    TransportKey,
    TransportPool,
    open_pool,
)
from ostler.pool.core import ReserveRule
from ostler.pool.provider import CloseVerb
from ostler.pool.providers import load
from tests.support.tally import Tally
from tests.support.waiting import eventually

DEFINITIONS = ({"name": "whoami", "description": "says whose call this is", "inputSchema": {"type": "object"}},)
TOOLS = ToolSet(DEFINITIONS)
SEATS, PROCESSES, PER_KEY = 8, 6, 2
LIMITS = Limits(
    max_processes=PROCESSES,
    max_processes_per_key=PER_KEY,
    starts_per_second=20.0,
    start_burst=10,
    idle_after=1.0,
    drain_timeout=5.0,
    max_age=20.0,
    probe_every=2.0,
    backoff_base=0.05,
    backoff_cap=0.5,
    breaker_cooldown=0.5,
    sweep_every=0.5,
    reserve=ReserveRule(most=4, rate_half_life=2.0, burst_half_life=5.0, burst_hold=1.0, keep_seconds=5.0),
)


async def whoami(call: ToolCall) -> CallResult:
    return CallResult.text(str(call.context))


@dataclass(frozen=True)
class Footing:
    """What must come back to where it was."""

    files: int
    tasks: int
    memory: int


@dataclass
class World:
    """Everything that lives, and what was seen of it."""

    folder: Path
    tally: Tally
    pool: TransportPool
    bridge: Bridge
    held: dict[int, Lease] = field(default_factory=dict)
    epoch: int = 0

    def keys(self) -> list[TransportKey]:
        """Two kinds of agent in three directories."""
        folders = [self.folder / name for name in ("a", "b", "c")]
        for folder in folders:
            folder.mkdir(exist_ok=True)
        return [TransportKey(kind, "demo", str(folder)) for kind in ("demo", "leaky") for folder in folders]

    def settings(self, most: int = PROCESSES) -> PoolSettings:
        """Another epoch, another environment, another fingerprint; and perhaps fewer processes."""
        one = ProviderSettings(env={"SOAK_EPOCH": str(self.epoch)})
        limits = replace(LIMITS, max_processes=most)
        return PoolSettings(limits=limits, providers={"demo": one, "leaky": one}, watch_every=1.0)

    def environ(self) -> dict[str, str]:
        return {"PATH": os.environ["PATH"], "HOME": str(self.folder)}

    def publish(self, lease: Lease, who: str) -> None:
        assert lease.ticket is not None
        lease.ticket.publish(DEFINITIONS, whoami, who)

    def agents(self) -> list[int]:
        """The processes that serve."""
        return [one.pid for one in self.pool.snapshot().processes if one.pid is not None and one.lost is None]

    def relays(self) -> list[psutil.Process]:
        """What the agents launched."""
        return [one for one in psutil.Process().children(recursive=True) if "relay" in cmdline(one)]

    def inspect(self) -> None:
        """One look at all books at once; nothing can happen between the lines."""
        seen = self.pool.snapshot()
        census, core = seen.core.census, seen.core
        leases = {one.lease: one for one in core.leases}
        expect = self.tally.expect
        self.tally.counts["inspections"] += 1
        expect(census.leased == len(leases), f"{census.leased} leased, {len(leases)} leases")
        expect(census.processes <= PROCESSES, f"{census.processes} processes, {PROCESSES} allowed")
        seats = [one.seat for one in leases.values() if one.seat is not None]
        expect(len(seats) == len(set(seats)), "one seat is leased twice")
        slots = {slot.slot: slot for key in core.keys for slot in key.slots}
        for key in core.keys:
            expect(len(key.slots) <= PER_KEY, f"{key.key} has {len(key.slots)} processes")
        for slot in slots.values():
            taken = slot.leased + slot.parked + slot.opening
            expect(taken <= slot.capacity, f"slot {slot.slot} holds {taken} of {slot.capacity} seats")
        for number, lease in self.held.items():
            known = leases.get(number)  # type: ignore[call-overload] # ids are ints
            if known is None:
                expect(lease.lost is not None or lease.released, f"lease {number} is held, and the core forgot it")
            else:
                expect(known.key.key == lease.key, f"lease {number} of {lease.key} stands in {known.key}")

    async def footing(self) -> Footing:
        """What is open when nothing goes on."""
        await asyncio.sleep(0.2)
        gc.collect()
        me = psutil.Process()
        return Footing(me.num_fds(), len(asyncio.all_tasks()), me.memory_info().rss)

    async def come_to_rest(self) -> None:
        """Nobody wants anything any more: every process must go by itself."""
        for key in self.pool.snapshot().core.keys:
            known = key.key.key  # type: ignore[attr-defined] # the pool's keys
            self.pool.resume(known)
            for line in key.lines:
                if line.floor:
                    self.pool.warm(known, TOOLS if line.tools else None, 0)
            self.pool.cool(known)
        await eventually(lambda: not self.alive(), "the end of every process that nobody wants", 60)

    def alive(self) -> bool:
        """Whether anything of this world still runs."""
        return bool(self.pool.snapshot().processes or self.strays() or self.bridge.stats.connected)

    def strays(self) -> list[int]:
        """Processes of this world that the system knows, whoever their parent is now: agents and relays."""
        mark = str(self.folder).encode()
        found = []
        for entry in Path("/proc").iterdir():
            if entry.name.isdecimal() and int(entry.name) != os.getpid():
                try:
                    environ, argv = (entry / "environ").read_bytes(), (entry / "cmdline").read_bytes()
                except OSError:
                    continue
                if mark in environ and (b"demo" in argv or b"relay" in argv):
                    found.append(int(entry.name))
        return found


def cmdline(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline()
    except psutil.Error:
        return []


@asynccontextmanager
async def open_world(folder: Path, tally: Tally) -> AsyncIterator[World]:
    """A pool that has nothing to do yet."""
    bridge = Bridge(BridgeSettings(data_directory=folder))
    await bridge.start()
    demo = replace(load()["demo"], seats_per_process=SEATS)
    leaky = replace(demo, name="leaky", close=CloseVerb.NONE, recycle_after=12, refill_pause=0.02)
    world = World(folder, tally, None, bridge)  # type: ignore[arg-type] # known two lines later
    try:
        async with open_pool(
            world.settings(),
            runtime_dir=folder / "run",
            environ=world.environ(),
            tool_port=bridge,
            providers={"demo": demo, "leaky": leaky},
        ) as pool:
            world.pool = pool
            yield world
    finally:
        await bridge.stop()
