"""The records of the pool state: one each for a process, seat, lease, tool set and key.

Rules:
- A record knows its own limits and nothing of another record's indexes. Every move that touches more than one record is
  made by `PoolState`.
- Which state may follow which is data. Any other move raises `ImpossibleTransition`: it is a defect of the core, never
  a fault of an agent or a caller.
"""

import math
from dataclasses import dataclass, field
from typing import TypeVar

from ostler.pool.core.growth import Weights
from ostler.pool.core.queueing import FairQueue
from ostler.pool.core.sizing import Arrivals
from ostler.pool.core.values import (
    ClaimId,
    CoreSharing,
    Key,
    KeySpec,
    LeaseId,
    Owner,
    QueueId,
    ResumeToken,
    RetireReason,
    SeatId,
    SeatState,
    SeatTools,
    SlotId,
    SlotState,
)

SLOT_MOVES: dict[SlotState, frozenset[SlotState]] = {
    SlotState.STARTING: frozenset({SlotState.READY, SlotState.CLOSING, SlotState.GONE}),
    SlotState.READY: frozenset({SlotState.DRAINING, SlotState.CLOSING, SlotState.GONE}),
    SlotState.DRAINING: frozenset({SlotState.CLOSING, SlotState.GONE}),
    SlotState.CLOSING: frozenset({SlotState.GONE}),
    SlotState.GONE: frozenset(),
}
SEAT_MOVES: dict[SeatState, frozenset[SeatState]] = {
    SeatState.OPENING: frozenset({SeatState.PARKED, SeatState.CLOSING, SeatState.GONE}),
    SeatState.PARKED: frozenset({SeatState.LEASED, SeatState.CLOSING, SeatState.GONE}),
    SeatState.LEASED: frozenset({SeatState.CLOSING, SeatState.GONE}),
    SeatState.CLOSING: frozenset({SeatState.GONE}),
    SeatState.GONE: frozenset(),
}

State = TypeVar("State", SlotState, SeatState)


class ImpossibleTransition(AssertionError):  # named by what happened; it is a defect, not an error to handle
    """The core tried to make a move that its table does not have."""


def moved(table: dict[State, frozenset[State]], before: State, after: State) -> State:
    """Return the new state if the table allows the move; otherwise raise."""
    if after not in table[before]:
        raise ImpossibleTransition(f"{before.value} -> {after.value}")
    return after


@dataclass(slots=True, eq=False)
class SlotRecord:
    """One agent process.

    `shunned`: gets no new seats, keeps those with a lease; `retire`: why it is being replaced; `unjudged`: seats leaked
    since the last check whether they are too many; `has_answered`: it has answered a prompt.
    """

    id: SlotId
    key: Key
    spec: KeySpec
    since: float
    born: float
    key_state: "KeyState | None" = None
    state: SlotState = SlotState.STARTING
    jitter: float = 0.0
    ready_at: float = 0.0
    ready_step: int = -1
    adopted_step: int = -1
    used_at: float = 0.0
    seats: "dict[SeatId, SeatRecord]" = field(default_factory=dict)
    leases: "dict[LeaseId, SeatRecord]" = field(default_factory=dict)
    opening: int = 0
    parked: int = 0
    opened: int = 0
    served: int = 0
    leaked: int = 0
    unjudged: bool = False
    charge: int = 0
    weights: Weights = field(default_factory=Weights)
    probed_at: float = 0.0
    missed: int = 0
    proven: bool = False
    has_answered: bool = False
    retire: RetireReason | None = None
    shunned: bool = False

    def enter(self, state: SlotState, now: float) -> None:
        self.state = moved(SLOT_MOVES, self.state, state)
        self.since = now

    @property
    def capacity(self) -> int:
        return self.spec.traits.seats_per_process

    @property
    def room(self) -> int:
        """Seats that may be opened here now."""
        if self.state is not SlotState.READY or self.shunned:
            return 0
        if self.spec.traits.sharing is CoreSharing.NONE and self.opened:
            return 0
        free = self.capacity - len(self.seats)
        return free if free > 0 else 0

    @property
    def untouched(self) -> bool:
        """No lease has ever been on it, and it is not going away."""
        fresh = self.state is SlotState.STARTING or self.state is SlotState.READY
        return fresh and not self.served and self.retire is None and not self.shunned

    @property
    def idle(self) -> bool:
        """It has no lease and owes no open: an opening seat is a promise."""
        return not self.leases and not self.opening


@dataclass(slots=True, eq=False)
class SeatRecord:
    """One agent-side session, from its open to its close."""

    id: SeatId
    key_state: "KeyState"
    slot: SlotRecord
    queue: "SeatQueue"
    group: str | SlotId
    since: float
    state: SeatState = SeatState.OPENING
    asked: bool = True
    """It counts against the opens that may run in parallel."""
    parked_step: int = -1
    lease: LeaseId | None = None
    """The right to it, which `owner` was granted for `claim`."""
    claim: ClaimId = None
    owner: Owner = None

    def enter(self, state: SeatState, now: float) -> None:
        self.state = moved(SEAT_MOVES, self.state, state)
        self.since = now


@dataclass(slots=True, eq=False)
class SeatQueue:
    """The seats of one key that are interchangeable: those of one tool set, or those of one claim that resumes.

    It has the waiting claims, the seats opened ahead, and what was learned of its arrivals.
    """

    id: QueueId
    resume: ResumeToken
    arrivals: Arrivals
    claims: FairQueue = field(default_factory=FairQueue)
    parked: dict[SeatId, SeatRecord] = field(default_factory=dict)
    opening: int = 0
    floor: int = 0
    failures: int = 0
    open_after: float = 0.0
    short_since: float | None = None

    @property
    def tools(self) -> SeatTools:
        return self.id[0]


@dataclass(slots=True, eq=False)
class KeyState:
    """One key: its processes and its seat queues.

    `cool`: nothing is kept warm, not even what was learned or configured, until a caller asks for the key again.
    """

    key: Key
    spec: KeySpec
    used_at: float
    slots: dict[SlotId, SlotRecord] = field(default_factory=dict)
    queues: dict[QueueId, SeatQueue] = field(default_factory=dict)
    paused: bool = False
    cool: bool = False
    open_seconds: float = 0.25
    start_seconds: float = 0.0
    came_up: bool = False
    """Whether any process of the key was ever ready: until then the key may be a name that a client made up."""
    answer_seconds: float = 0.0
    start_bytes: int = 0
    ceiling_off: bool = False
    memory_retired_at: float | None = None
    slow_retired_at: float | None = None
    gave_way_at: float | None = None
    spares_gave_way_at: float | None = None

    @property
    def waiting(self) -> int:
        count = 0
        for queue in self.queues.values():
            count += queue.claims.count
        return count

    @property
    def floor(self) -> int:
        """The number of processes that hold the seats which an operator or the configuration keeps parked."""
        seats = 0 if self.cool else sum(queue.floor for queue in self.queues.values())
        return math.ceil(seats / self.spec.traits.seats_per_process)

    @property
    def spares(self) -> int:
        """The number of unassigned processes that the key asks for."""
        return 0 if self.cool else self.spec.spares


def open_group(slot: SlotRecord) -> str | SlotId:
    """The group in which opens compete: the HOME group where the provider names one, else the process."""
    return slot.spec.traits.open_group or slot.id
