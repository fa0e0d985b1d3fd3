"""The vocabulary of the core: identities, states, reasons. Plain values without behaviour of their own.

Rules:
- An id is never used twice, so an id that is not in the state is GONE, and an event that names it is stale.
- Keys, tools and resume tokens are opaque here: the core compares them and hands them back. The fingerprint beside a
  key stands for every input that shapes the process.
"""

from collections.abc import Hashable
from dataclasses import dataclass
from enum import Enum
from typing import NewType, TypeAlias

SlotId = NewType("SlotId", int)
SeatId = NewType("SeatId", int)
LeaseId = NewType("LeaseId", int)
ClaimId: TypeAlias = Hashable
Key: TypeAlias = Hashable
Owner: TypeAlias = Hashable
SeatTools: TypeAlias = Hashable
"""What a seat is opened with. Seats of equal tools are interchangeable."""
ResumeToken: TypeAlias = Hashable
"""What one claim's own seat is opened with besides; None for a seat that any claim may get."""
QueueId: TypeAlias = tuple[SeatTools, ClaimId | None]
"""Names a seat queue of a key: its tools, and the claim whose own it is, if it is one claim's."""


class SlotState(Enum):
    """The life of one agent process. Busy or idle is derived from leases and promises, never stored."""

    STARTING = "starting"
    READY = "ready"
    DRAINING = "draining"
    CLOSING = "closing"
    GONE = "gone"


class SeatState(Enum):
    """The life of one agent-side session. No state leads back to PARKED: a used seat is never given to another
    session.
    """

    OPENING = "opening"
    PARKED = "parked"
    LEASED = "leased"
    CLOSING = "closing"
    GONE = "gone"


class Warmth(Enum):
    """What the claim had to wait for: the slowest step it saw names the whole claim."""

    PARKED = "parked"
    WARM = "warm"
    SPARE = "spare"
    COLD = "cold"


class MissReason(Enum):
    """Why no parked seat served the claim."""

    NONE = "none"
    FIRST_USE = "first_use"
    RESERVE_EMPTY = "reserve_empty"
    NO_PROCESS = "no_process"
    STARTING = "starting"
    FULL = "full"
    REPLACING = "replacing"
    BACKOFF = "backoff"
    PAUSED = "paused"


class RefusalKind(Enum):
    """Why a claim was refused."""

    SATURATED = "saturated"
    CLOSED = "closed"
    START_FAILED = "start_failed"
    OPEN_FAILED = "open_failed"
    BREAKER_OPEN = "breaker_open"
    PAUSED = "paused"
    DEADLOCK = "deadlock"
    UNKNOWN_KEY = "unknown_key"


class RetireReason(Enum):
    """Why a slot is retired, stopped or lost."""

    AGE = "age"
    SEATS_SERVED = "seats_served"
    SEATS_LEAKED = "seats_leaked"
    MEMORY_GROWTH = "memory_growth"
    MEMORY_BUDGET = "memory_budget"
    WEDGED = "wedged"
    SLOW_OPENS = "slow_opens"
    OPENS_FAIL = "opens_fail"
    FINGERPRINT = "fingerprint"
    OPERATOR = "operator"
    IDLE = "idle"
    EVICTED = "evicted"
    SURPLUS = "surplus"
    USED_UP = "used_up"
    START_FAILED = "start_failed"
    DIED = "died"
    DRAIN_DEADLINE = "drain_deadline"
    SHUTDOWN = "shutdown"
    TOOLS_LOST = "tools_lost"
    """Of one lease: its agent can no longer reach the seat's tools."""


class Counted(Enum):
    """What the runner should log or count without acting on it."""

    STALE = "stale"
    START_FAILED = "start_failed"
    OPEN_FAILED = "open_failed"
    SEAT_LEAKED = "seat_leaked"
    SEAT_BROKEN = "seat_broken"
    SLOT_DIED = "slot_died"
    RETIRED = "retired"
    OVER_BUDGET = "over_budget"
    CEILING_TOO_LOW = "ceiling_too_low"
    BREAKER_OPENED = "breaker_opened"
    BREAKER_CLOSED = "breaker_closed"
    STOP_OVERDUE = "stop_overdue"


class CoreSharing(Enum):
    """What a provider has proven about several sessions in one process."""

    SESSIONS = "sessions"
    PER_CWD = "per_cwd"
    NONE = "none"


class SettingsError(ValueError):
    """A limit or trait that cannot be intended: refused before anything is built on it."""


@dataclass(frozen=True, slots=True)
class Traits:
    """What the core must know of a provider; declared and proven elsewhere.

    A key has one cwd and a slot one key, so PER_CWD holds one seat per process just as NONE does. The difference: after
    a clean close a PER_CWD process serves again, while a NONE process ends with its only seat.

    `refill_pause`: how long a missing parked seat stays missing. An agent with one thread that opens the next session
    at once would delay the first word of the answer to the claim that has just taken a seat.
    """

    sharing: CoreSharing = CoreSharing.SESSIONS
    seats_per_process: int = 1
    recycle_after_seats: int | None = None
    recycle_after_leaks: int | None = None
    can_close: bool = True
    open_group: str | None = None
    parallel_opens: int = 4
    first_start_alone: bool = False
    cwd_per_session: bool = False
    start_seconds: float = 2.0
    start_bytes: int = 256 << 20
    seat_bytes: int = 4 << 20
    refill_pause: float = 0.0

    def __post_init__(self) -> None:
        counts = (
            self.seats_per_process,
            self.parallel_opens,
            self.recycle_after_seats,
            self.recycle_after_leaks,
        )
        if any(count is not None and count <= 0 for count in counts):
            raise SettingsError(f"a trait of zero or less never means unlimited: {self}")
        if self.sharing is not CoreSharing.SESSIONS and self.seats_per_process != 1:
            raise SettingsError(f"{self.sharing.value} holds one seat per process, not {self.seats_per_process}")
        if self.start_seconds <= 0 or self.start_bytes <= 0 or self.seat_bytes <= 0:
            raise SettingsError(f"expected start-up time and sizes must be positive: {self}")
        if self.refill_pause < 0:
            raise SettingsError(f"a pause before a refill cannot be below 0 s: {self}")


@dataclass(frozen=True, slots=True)
class KeySpec:
    """How processes of a key are made. Another fingerprint is another generation and drains the old one.

    `reserve`: the key whose processes may be taken over, with their parked seats, as long as no session has used them.
    """

    provider: str
    fingerprint: str
    traits: Traits
    spares: int = 0
    max_processes: int | None = None
    reserve: Key | None = None

    def __post_init__(self) -> None:
        if self.spares < 0 or (self.max_processes is not None and self.max_processes <= 0):
            raise SettingsError(f"spares are 0 or more, max_processes is 1 or more: {self}")
        if self.spares and not self.traits.cwd_per_session:
            raise SettingsError(f"{self.provider} ties a process to its cwd: it can have no spares")

    @property
    def group(self) -> tuple[str, str]:
        """Keys that start the same process share spares and breakers."""
        return (self.provider, self.fingerprint)


@dataclass(frozen=True, slots=True)
class PoolCensus:
    """The pool in numbers, carried by every refusal to explain it."""

    processes: int
    starting: int
    ready: int
    dying: int
    max_processes: int
    leased: int
    parked: int
    waiting: int
    memory: int
    memory_budget: int | None
    throttled: bool = False
    """Whether no process may start at the moment because too many have just started."""
