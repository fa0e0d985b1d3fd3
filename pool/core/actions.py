"""What the pool tells its shell to do, in order. The core has recorded every action before it returns it, so
a shell that is cancelled halfway has lost nothing but its own work.
"""

from dataclasses import dataclass
from typing import TypeAlias

from ostler.pool.core.values import (
    ClaimId,
    Counted,
    Key,
    LeaseId,
    MissReason,
    PoolCensus,
    RefusalKind,
    RetireReason,
    SeatId,
    SlotId,
    Warmth,
)


@dataclass(frozen=True, slots=True)
class StartSlot:
    """Start a process. A spare is started for `key`'s spec but belongs to nobody until it is adopted.

    Answered by SlotStarted, or by SlotStartFailed and then SlotGone.
    """

    slot: SlotId
    key: Key
    fingerprint: str
    generation: int
    spare: bool = False


@dataclass(frozen=True, slots=True)
class AdoptSlot:
    """The process, a spare or one of the key's reserve, now belongs to this key, with the seats that it has."""

    slot: SlotId
    key: Key


@dataclass(frozen=True, slots=True)
class StopSlot:
    """End the process tree; answered by SlotGone. A second, hard one may follow a graceful one."""

    slot: SlotId
    hard: bool
    cause: RetireReason


@dataclass(frozen=True, slots=True)
class OpenSeat:
    """Open an agent session with these tools; answered by SeatOpened or SeatOpenFailed."""

    seat: SeatId
    slot: SlotId
    key: Key
    tools: str


@dataclass(frozen=True, slots=True)
class CloseSeat:
    """End a seat (an opening one too: then close it as soon as it is open). Answered by SeatClosed."""

    seat: SeatId
    slot: SlotId


@dataclass(frozen=True, slots=True)
class Grant:
    """The claim holds this lease from now on. `seat is None` for a claim of the shared transport."""

    claim: ClaimId
    lease: LeaseId
    generation: int
    key: Key
    slot: SlotId
    seat: SeatId | None
    warmth: Warmth
    miss: MissReason
    waited: float


@dataclass(frozen=True, slots=True)
class Refuse:
    claim: ClaimId
    kind: RefusalKind
    waited: float
    census: PoolCensus
    retry_after: float | None = None
    phase: str = ""
    text: str = ""


@dataclass(frozen=True, slots=True)
class MoveRequested:
    """The lease's process retires, or its seat has lost its tools: release it at the next turn boundary and claim
    anew."""

    lease: LeaseId
    slot: SlotId
    cause: RetireReason


@dataclass(frozen=True, slots=True)
class SeatsLost:
    """These leases are over, each told exactly once."""

    slot: SlotId
    leases: tuple[LeaseId, ...]
    cause: RetireReason
    text: str


@dataclass(frozen=True, slots=True)
class Probe:
    """Ask the process for a sign of life; answered by ProbeAnswered or ProbeMissed."""

    slot: SlotId


@dataclass(frozen=True, slots=True)
class WakeAt:
    """Send a Tick at this time. The last one said replaces those before."""

    time: float


@dataclass(frozen=True, slots=True)
class ForgetKey:
    """An unused key left the books: register it again before its next claim."""

    key: Key


@dataclass(frozen=True, slots=True)
class Notable:
    """Something to log and count; nothing to do."""

    what: Counted
    key: Key | None = None
    slot: SlotId | None = None
    cause: RetireReason | None = None
    text: str = ""


Action: TypeAlias = (
    StartSlot
    | AdoptSlot
    | StopSlot
    | OpenSeat
    | CloseSeat
    | Grant
    | Refuse
    | MoveRequested
    | SeatsLost
    | Probe
    | WakeAt
    | ForgetKey
    | Notable
)
