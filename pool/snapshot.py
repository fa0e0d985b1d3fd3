"""The contents of the pool, as plain data for the console, the metrics and the status page.

Rules: values only, JSON-ready through `as_json`; no token and no prompt; taken in one step, so that its parts agree.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from enum import Enum
from typing import Any

from ostler.pool.core.census import Snapshot
from ostler.pool.errors import AgentStartFailed, PoolError, TransportLost
from ostler.pool.runner.engine import Engine


@dataclass(frozen=True, slots=True)
class ProcessView:
    """The process behind a slot."""

    slot: int
    key: str
    provider: str
    model: str
    private: bool
    owner: str | None
    """The only owner whose sessions may use it; None: it serves every owner, or no owner has taken it yet."""
    pid: int | None
    memory: int
    sessions: int
    leaked: int
    dropped: Mapping[str, int]
    lost: str | None


@dataclass(frozen=True, slots=True)
class FailureView:
    """The last failure of a key."""

    key: str
    kind: str
    text: str
    ago: float
    """Seconds since the failure."""
    stderr: tuple[str, ...] = ()
    """The agent's last lines of stderr, redacted when they were read."""


class WorkKind(Enum):
    """The kind of work that is under way."""

    START = "start"
    OPEN = "open"


@dataclass(frozen=True, slots=True)
class UnderWay:
    """A start or an open that has not ended yet."""

    provider: str
    work: WorkKind
    seconds: float


@dataclass(frozen=True, slots=True)
class PoolSnapshot:
    """The pool at one moment: the core's state, and the live processes behind it."""

    enabled: bool
    core: Snapshot
    processes: tuple[ProcessView, ...]
    failures: tuple[FailureView, ...]
    share: str = ""
    """Which sessions may share a process: `all` or `owner`."""

    def as_json(self) -> dict[str, Any]:
        """Nested dicts, lists, strings and numbers."""
        return {field.name: plain_value(getattr(self, field.name)) for field in fields(self)}


def snapshot(engine: Engine, *, enabled: bool, share: str, now: float) -> PoolSnapshot:
    """Take the snapshot, in one step of the pool's loop."""
    processes = []
    for running in engine.processes.values():
        transport = running.transport
        processes.append(
            ProcessView(
                slot=running.slot,
                key=str(running.key),
                provider=running.key.key.provider,
                model=running.key.key.model,
                private=running.key.private,
                owner=running.key.owner,
                pid=None if transport is None else transport.pid,
                memory=running.memory,
                sessions=0 if transport is None else transport.sessions,
                leaked=0 if transport is None else transport.leaked,
                dropped={} if transport is None else transport.dropped,
                lost=None if transport is None or transport.lost is None else str(transport.lost),
            )
        )
    failures = tuple(
        FailureView(str(key), type(each.error).__name__, str(each.error), now - each.at, last_stderr(each.error))
        for key, each in engine.failures.items()
    )
    return PoolSnapshot(enabled, engine.core.snapshot(), tuple(processes), failures, share)


def under_way(engine: Engine, now: float) -> list[UnderWay]:
    """Starts and opens under way that are still wanted."""
    processes = engine.processes.values()
    starts = [
        UnderWay(one.key.key.provider, WorkKind.START, now - one.begun)
        for one in processes
        if one.transport is None and not one.stopping
    ]
    opens = [
        UnderWay(one.key.key.provider, WorkKind.OPEN, now - seat.begun)
        for one in processes
        for seat in one.seats.values()
        if seat.ready_at is None and not seat.unwanted
    ]
    return starts + opens


def last_stderr(error: PoolError) -> tuple[str, ...]:
    """What the agent wrote to stderr before it failed."""
    return error.stderr if isinstance(error, AgentStartFailed | TransportLost) else ()


def plain_value(value: object) -> object:
    """The JSON-ready form of a value object; any other object becomes its text."""
    match value:
        case None | bool() | int() | float() | str():
            return value.value if isinstance(value, Enum) else value
        case Enum():
            return value.value
        case Mapping():
            return {str(name): plain_value(item) for name, item in value.items()}
        case list() | tuple() | set() | frozenset():
            return [plain_value(item) for item in value]
        case _ if is_dataclass(value) and type(value).__str__ is object.__str__:
            return {field.name: plain_value(getattr(value, field.name)) for field in fields(value)}
        case _:
            return str(value)
