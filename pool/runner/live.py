"""The live objects behind the core's ids: which transport is which slot, which agent session is which seat.

Rules: the core decides, `LiveObjects` only finds. An entry is made when the core orders the object and removed when the
core is told that it is gone, so `LiveObjects` never holds more than the core knows of.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import cast

from ostler.pool.agent.session import AgentSession
from ostler.pool.agent.transport import Transport
from ostler.pool.core.values import Key, LeaseId, SeatId, SlotId
from ostler.pool.errors import PoolError
from ostler.pool.events import PermissionAsked
from ostler.pool.keys import TransportKey
from ostler.pool.launch.builder import Launch
from ostler.pool.lease import LeaseState
from ostler.pool.order import SessionMemo
from ostler.pool.ports import PermissionChoice, PermissionPolicy, ToolSet, ToolTicket


@dataclass(frozen=True, slots=True)
class PoolKey:
    """The key that the core sees: a transport key that is shared by all sessions, shared by the sessions of one owner,
    or private, for processes that serve one session each.
    """

    key: TransportKey
    private: bool = False
    owner: str | None = None
    """The only owner whose sessions may share its processes; None: every owner, or no owner yet (see
    `PoolSettings.share`).
    """

    def __str__(self) -> str:
        whose = "" if self.owner is None else f" of {self.owner or 'the unnamed owner'}"
        return f"{self.key}, own process" if self.private else f"{self.key}{whose}"


def pool_key(key: Key) -> PoolKey:
    """The core returns only keys that it was given, and it is given no others."""
    return cast("PoolKey", key)


class SeatPolicy:
    """A permission policy that is set when the seat is claimed; until then the pool's default policy answers."""

    def __init__(self, default: PermissionPolicy) -> None:
        self.answer = default

    async def __call__(self, session_id: str, asked: PermissionAsked, /) -> PermissionChoice:
        return await self.answer(session_id, asked)


@dataclass(eq=False)
class LiveProcess:
    """One slot: a process that starts, runs, or is being stopped."""

    slot: SlotId
    key: PoolKey
    launch: Launch
    begun: float
    task: asyncio.Task[None] | None = None
    transport: Transport | None = None
    end: Callable[[bool], Awaitable[None]] | None = None
    """The only way to end the process; other holders of the transport cannot."""
    ready_at: float | None = None
    memory: int = 0
    stopping: bool = False
    has_answered: bool = False
    """Whether it has answered a prompt."""

    def adopt(self, key: PoolKey) -> None:
        """Assign a spare to the key that adopts it, perhaps before it is ready."""
        self.key = key
        self.launch = replace(self.launch, key=key.key)
        if self.transport is not None:
            self.transport.adopt(key.key)


@dataclass(eq=False)
class LiveSeat:
    """One seat: an agent session that opens, waits, serves, or is being closed."""

    id: SeatId
    slot: SlotId
    tools: ToolSet | None
    resume: SessionMemo | None
    policy: SeatPolicy
    begun: float
    session: AgentSession | None = None
    ticket: ToolTicket | None = None
    answered: bool = False
    """Whether its agent has answered the open."""
    ready_at: float | None = None
    relay_gone: bool = False
    restored: bool = False
    unwanted: bool = False


@dataclass(frozen=True, slots=True)
class Failure:
    """The last failed start or open of a key, or its last death. It is kept while the key is known, so the error is
    kept without the frames of the failed work, which refer to its process, session and tools.
    """

    error: PoolError
    at: float

    def __post_init__(self) -> None:
        object.__setattr__(self, "error", self.error.alone())


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


@dataclass
class LiveObjects:
    """Every live object of one pool, by id."""

    slots: dict[SlotId, LiveProcess] = field(default_factory=dict)
    seats: dict[SeatId, LiveSeat] = field(default_factory=dict)
    leases: dict[LeaseId, LeaseState] = field(default_factory=dict)
    failures: dict[PoolKey, Failure] = field(default_factory=dict)
    """The typed error of each key's last failure, quoted when the core refuses a claim."""

    def transport(self, slot: SlotId) -> Transport | None:
        """The transport of a slot, if its process is ready."""
        running = self.slots.get(slot)
        return running.transport if running else None

    def opens_on(self, slot: SlotId) -> bool:
        """Whether a seat is being opened on the slot, even if its claim has given up."""
        return any(seat.slot == slot and seat.ready_at is None for seat in self.seats.values())

    def sessions_on(self, slot: SlotId) -> int:
        """The sessions on the slot that the agent has opened."""
        return sum(seat.slot == slot and seat.session is not None for seat in self.seats.values())

    def under_way(self, now: float) -> list[UnderWay]:
        """Starts and opens under way that are still wanted."""
        starts = [
            UnderWay(one.key.key.provider, WorkKind.START, now - one.begun)
            for one in self.slots.values()
            if one.transport is None and not one.stopping
        ]
        opens = [
            UnderWay(self.slots[one.slot].key.key.provider, WorkKind.OPEN, now - one.begun)
            for one in self.seats.values()
            if one.ready_at is None and not one.unwanted and one.slot in self.slots
        ]
        return starts + opens
