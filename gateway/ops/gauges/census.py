"""Reads levels at a scrape: what the pool, the bridge, the sessions and the store hold at this moment.

Rules: a refresh runs on the event loop without an await, so it only reads numbers that are already counted.
"""

import os
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from ostler.bridge.stats import Stats
from ostler.gateway.memory.memories import Memories
from ostler.gateway.ops.gauges.observers import PoolGauges
from ostler.gateway.ops.readiness import Readiness
from ostler.gateway.turns.sessions import Sessions
from ostler.metrics.instruments import BridgeInstruments, Instruments, PoolInstruments
from ostler.pool.core.census import SlotView
from ostler.pool.keys import pool_key
from ostler.pool.pool import TransportPool
from ostler.pool.snapshot import PoolSnapshot

STATES = ("starting", "ready", "draining", "closing")
SEATS = ("leased", "parked", "opening")


@dataclass(frozen=True, slots=True)
class LevelReader:
    """Copies current levels into the instruments."""

    instruments: Instruments
    gauges: PoolGauges
    pool: TransportPool
    bridge: Stats
    sessions: Sessions
    readiness: Readiness
    memories: Memories
    reaped: int
    """Number of processes left by an earlier run that were reaped at start-up."""
    database: Path
    places: Mapping[str, str]
    """Directory to short name, for metric labels."""

    def refresh(self) -> None:
        """Update all levels. Called before a scrape is written."""
        seen = self.pool.snapshot()
        into = self.instruments.pool
        read_processes(into, seen)
        read_keys(into, seen, self.places)
        into.reaped.raise_to({(): self.reaped})
        self._read_drops(seen)
        read_bridge(self.instruments.bridge, self.bridge)
        self._read_gateway()

    def _read_drops(self, seen: PoolSnapshot) -> None:
        drops: Counter[tuple[str, ...]] = Counter(self.gauges.dropped_before)
        for process in seen.processes:
            for kind, count in process.dropped.items():
                drops[process.provider, kind] += count
        self.instruments.pool.dropped.raise_to(drops)

    def _read_gateway(self) -> None:
        into, sessions = self.instruments.gateway, self.sessions
        into.ready.of().set(self.readiness.ready and not sessions.draining)
        into.draining.of().set(sessions.draining)
        running = sessions.running
        self.instruments.turns.sessions.show({("running",): running, ("resting",): len(sessions) - running})
        self.instruments.memory.waiting.show({(name,): count for name, count in self.memories.undone().items()})
        self.instruments.store.size.of().set(size_of(self.database))
        self.instruments.store.wal.of().set(size_of(self.database.with_name(f"{self.database.name}-wal")))


def read_processes(into: PoolInstruments, seen: PoolSnapshot) -> None:
    """Set the levels of processes, seats and memory, by provider."""
    census = seen.core.census
    states: Counter[tuple[str, ...]] = Counter()
    seats: Counter[tuple[str, ...]] = Counter()
    memory: Counter[tuple[str, ...]] = Counter()
    for provider in {key.provider for key in seen.core.keys}:
        states.update({(provider, state): 0 for state in STATES})
        seats.update({(provider, state): 0 for state in SEATS})
    for provider, slot in slots(seen):
        states[provider, slot.state.value] += 1
        for state, count in zip(SEATS, (slot.leased, slot.parked, slot.opening), strict=True):
            seats[provider, state] += count
    for process in seen.processes:
        memory[process.provider,] += process.memory
    into.processes.show(states)
    into.seats.show(seats)
    into.agent_memory.show(memory)
    into.memory.of().set(census.memory)
    into.budget.of().set(census.memory_budget or 0)
    into.process_limit.of().set(census.max_processes)
    into.enabled.of().set(seen.enabled)


def slots(seen: PoolSnapshot) -> Iterator[tuple[str, SlotView]]:
    """Yield every process slot with its provider."""
    providers = {process.slot: process.provider for process in seen.processes}
    for key in seen.core.keys:
        for slot in key.slots:
            yield key.provider, slot
    for slot in seen.core.spares:
        yield providers.get(slot.slot, ""), slot


def read_keys(into: PoolInstruments, seen: PoolSnapshot, places: Mapping[str, str]) -> None:
    """Set the levels of each key; directories without a short name share one label."""
    waiting: Counter[tuple[str, ...]] = Counter()
    reserve: Counter[tuple[str, ...]] = Counter()
    failures: dict[tuple[str, ...], float] = {}
    breakers: Counter[tuple[str, ...]] = Counter()
    for view in seen.core.keys:
        key = pool_key(view.key).key
        waiting[key.provider, key.model] += view.waiting
        place = places.get(key.cwd, "")
        reserve[key.provider, key.model, place, "target"] += sum(line.target for line in view.lines)
        reserve[key.provider, key.model, place, "actual"] += sum(line.parked for line in view.lines)
        failures[key.provider,] = max(failures.get((key.provider,), 0), view.failures)
        breakers[key.provider,] += view.retry_in > 0
    into.waiting.show(waiting)
    into.reserve.show(reserve)
    into.failures.show(failures)
    into.breakers.show(breakers)


def read_bridge(into: BridgeInstruments, stats: Stats) -> None:
    """Copy the bridge's own counters."""
    over = stats.calls - stats.calls_running
    ok = over - stats.calls_failed - stats.calls_ended
    into.calls.raise_to({("ok",): ok, ("failed",): stats.calls_failed, ("ended",): stats.calls_ended})
    into.seconds.sum_up(over, stats.call_seconds)
    into.running.of().set(stats.calls_running)
    causes = {**stats.refused, "evicted": stats.evicted, "silent": stats.hello_timeouts}
    into.refusals.raise_to({(cause,): count for cause, count in causes.items()})
    into.lost.raise_to({(reason,): count for reason, count in stats.lost.items()})
    into.relays.of().set(stats.connected)
    into.connections.raise_to({(): stats.connections})
    into.reconnects.raise_to({(): stats.reconnects})
    into.dropped.raise_to({(): stats.frames_dropped})


def size_of(path: Path) -> int:
    """The size of a file; 0 if it is missing, as the log of an idle database is, or cannot be read: the other metrics
    matter most when the disk fails."""
    try:
        return os.stat(path).st_size  # noqa: PTH116 - one system call, on the loop
    except OSError:
        return 0
