"""The state that operators see, as one JSON object, built on request.

Rules:
- The object is consistent: one snapshot of the pool is taken, and all parts are joined without an await.
- No token and no prompt; sessions and owners only of failed turns. Directories are shown: an operator who may end a
  process may know where it runs.
- A watcher gets the next state when something has changed, and every `SAY_EVERY` seconds for the ages.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from weakref import WeakSet

from ostler.gateway.ops.console.errors import TooManyWatchers
from ostler.gateway.ops.console.turns import RecentTurns
from ostler.gateway.ops.readiness import Readiness
from ostler.gateway.turns.sessions import Sessions
from ostler.pool.core.census import KeyView, SlotView
from ostler.pool.keys import PoolKey, TransportKey, pool_key
from ostler.pool.snapshot import FailureView, ProcessView, plain_value
from ostler.wire.json import JsonObject
from ostler.wire.redaction import excerpt

LOOK_EVERY = 0.5
SAY_EVERY = 5.0
WATCHERS = 32
LONGEST = 600
LINES = 12
AGING = frozenset(
    {"time", "uptime", "age", "in_state", "unused_for", "arrivals_per_minute", "retry_in", "memory", "memory_charged"}
)
"""Facts that change by time alone."""


@dataclass(frozen=True, slots=True)
class StatusSources:
    """Where the facts come from, and the clocks."""

    sessions: Sessions
    readiness: Readiness
    turns: RecentTurns
    version: str
    clock: Callable[[], float]
    wall: Callable[[], float]


class StatusView:
    """Builds the state and feeds the watchers."""

    def __init__(self, sources: StatusSources) -> None:
        self._sources = sources
        self._born = sources.clock()
        self._watchers: WeakSet[Watch] = WeakSet()
        self._seen: tuple[float, JsonObject] | None = None

    def state(self) -> JsonObject:
        """The current state. Must run on the event loop."""
        sources = self._sources
        snapshot = sources.sessions.deps.pool.snapshot()
        processes = {int(view.slot): view for view in snapshot.processes}
        core = snapshot.core
        problems = [excerpt(problem.detail, LONGEST) for problem in sources.readiness.problems]
        return {
            "object": "pool.state",
            "time": round(sources.wall(), 3),
            "uptime": round(sources.clock() - self._born, 1),
            "version": sources.version,
            "ready": not problems and not sources.sessions.draining,
            "problems": problems,
            "draining": sources.sessions.draining,
            "running_turns": sources.sessions.running,
            "enabled": snapshot.enabled,
            "share": snapshot.share,
            "paused": core.paused,
            "census": plain_value(core.census),
            "keys": [key_facts(view, processes) for view in core.keys],
            "spares": [process_facts(slot, processes) for slot in core.spares],
            "claims": dict(sources.readiness.claims),
            "first_turns": {name: sources.turns.first_turns[name] for name in ("all", "at_once")},
            "outcomes": dict(sources.turns.outcomes),
            "turns": [turn.as_json() for turn in reversed(sources.turns.turns)],
            "failed_turns": [turn.as_failure() for turn in reversed(sources.turns.failures)],
            "failures": [failure_facts(view) for view in snapshot.failures],
        }

    def watch(self) -> "Watch":
        """Register a watcher, before its stream begins: a stream that has begun cannot report an error. Raises
        `TooManyWatchers`."""
        if len(self._watchers) >= WATCHERS:
            raise TooManyWatchers(WATCHERS)
        watch = Watch(self)
        self._watchers.add(watch)
        return watch

    def leave(self, watch: "Watch") -> None:
        """Remove a watcher. A watch that is dropped without being iterated is removed by the garbage collector."""
        self._watchers.discard(watch)

    async def states(self) -> AsyncIterator[JsonObject]:
        """Yield the state whenever it changes, until the gateway has drained."""
        last, said_at = None, self._sources.clock()
        while True:
            state = self._glance()
            steady = without_ages(state)
            if steady != last or self._sources.clock() - said_at >= SAY_EVERY:
                last, said_at = steady, self._sources.clock()
                yield state
            if state["draining"] and not state["running_turns"]:
                return
            await asyncio.sleep(LOOK_EVERY)

    def _glance(self) -> JsonObject:
        """The state, shared by all watchers: thirty watchers cost as much as one."""
        now = self._sources.clock()
        if self._seen is None or now - self._seen[0] > LOOK_EVERY / 2:
            self._seen = (now, self.state())
        return self._seen[1]


class Watch:
    """One live view of the state. Created by `StatusView.watch`."""

    def __init__(self, status_view: StatusView) -> None:
        self._status_view = status_view

    async def __aiter__(self) -> AsyncIterator[JsonObject]:
        try:
            async for state in self._status_view.states():
                yield state
        finally:
            self._status_view.leave(self)


def key_facts(view: KeyView, processes: dict[int, ProcessView]) -> JsonObject:
    """The facts of a key and its processes."""
    known: PoolKey = pool_key(view.key)
    return {
        "key": str(known.key),
        "name": name_of(known.key),
        "provider": known.key.provider,
        "model": known.key.model,
        "cwd": known.key.cwd,
        "own_process": known.private,
        "owner": known.owner,
        "paused": view.paused,
        "waiting": view.waiting,
        "processes_wanted": view.processes_wanted,
        "start_failures": view.failures,
        "retry_in": round(view.retry_in, 1),
        "last_failure": excerpt(view.last_failure, LONGEST),
        "target": sum(line.target for line in view.lines),
        "floor": sum(line.floor for line in view.lines),
        "parked": sum(slot.parked for slot in view.slots),
        "leased": sum(slot.leased for slot in view.slots),
        "opening": sum(slot.opening for slot in view.slots),
        "arrivals_per_minute": round(sum(line.arrivals_per_minute for line in view.lines), 2),
        "processes": [process_facts(slot, processes) for slot in view.slots],
    }


def process_facts(slot: SlotView, processes: dict[int, ProcessView]) -> JsonObject:
    """The facts of a process."""
    living = processes.get(int(slot.slot))
    return {
        "process": int(slot.slot),
        "pid": None if living is None else living.pid,
        "state": slot.state.value,
        "retired_for": None if slot.retire is None else slot.retire.value,
        "age": round(slot.age, 1),
        "unused_for": round(slot.unused_for, 1),
        "leased": slot.leased,
        "parked": slot.parked,
        "opening": slot.opening,
        "capacity": slot.capacity,
        "served": slot.served,
        "leaked": slot.leaked,
        "memory": living.memory if living is not None and living.memory else None,
        "memory_charged": slot.memory,
    }


def failure_facts(view: FailureView) -> JsonObject:
    """The last failure of a key, with the agent's last lines of stderr."""
    lines = [excerpt(line, LONGEST) for line in view.stderr[-LINES:]]
    text = view.text.partition("; last stderr lines: ")[0] if lines else view.text
    facts = {"key": view.key, "kind": view.kind, "text": excerpt(text, LONGEST), "stderr": lines}
    return {**facts, "age": round(view.ago, 1)}


def name_of(key: TransportKey) -> str:
    """The name that operators type: `provider/model`."""
    return f"{key.provider}/{key.model}"


def without_ages(value: object) -> object:
    """The value without the facts that change by time alone."""
    match value:
        case dict():
            return {name: without_ages(part) for name, part in value.items() if name not in AGING}
        case list():
            return [without_ages(part) for part in value]
        case _:
            return value
