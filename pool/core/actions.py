"""What the core orders its runner to do, in order.

Rules: the core has recorded every action before it returns it, so a runner that is cancelled halfway loses nothing but
its own work.
"""

from dataclasses import dataclass

from ostler.pool.core.values import (
    ClaimId,
    Counted,
    Key,
    LeaseId,
    MissReason,
    PoolCensus,
    RefusalKind,
    ResumeToken,
    RetireReason,
    SeatId,
    SeatTools,
    SlotId,
    Warmth,
)


class Action:
    """The base of every action."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class StartSlot(Action):
    """Start a process. A spare is started with `key`'s spec but belongs to no key until it is adopted.

    Answered by SlotStarted, or by SlotStartFailed and then SlotGone.
    """

    slot: SlotId
    key: Key
    fingerprint: str
    spare: bool = False


@dataclass(frozen=True, slots=True)
class AdoptSlot(Action):
    """The process, a spare or one of the key's reserve, now belongs to this key, with the seats that it has."""

    slot: SlotId
    key: Key


@dataclass(frozen=True, slots=True)
class StopSlot(Action):
    """End the process tree; answered by SlotGone. A hard stop may follow a graceful one."""

    slot: SlotId
    hard: bool
    cause: RetireReason


@dataclass(frozen=True, slots=True)
class OpenSeat(Action):
    """Open an agent session with these tools, and with what its claim gave to resume; answered by SeatOpened or
    SeatOpenFailed.
    """

    seat: SeatId
    slot: SlotId
    key: Key
    tools: SeatTools
    resume: ResumeToken


@dataclass(frozen=True, slots=True)
class CloseSeat(Action):
    """End a seat; one that is still opening is closed as soon as it is open. Answered by SeatClosed."""

    seat: SeatId
    slot: SlotId


@dataclass(frozen=True, slots=True)
class Grant(Action):
    """The claim holds this lease from now on."""

    claim: ClaimId
    lease: LeaseId
    key: Key
    slot: SlotId
    seat: SeatId
    warmth: Warmth
    miss: MissReason
    waited: float


@dataclass(frozen=True, slots=True)
class Refuse(Action):
    claim: ClaimId
    kind: RefusalKind
    waited: float
    census: PoolCensus
    retry_after: float | None = None
    phase: str = ""
    text: str = ""


@dataclass(frozen=True, slots=True)
class MoveRequested(Action):
    """The lease's process retires, or its seat has lost its tools: release the lease at the next turn boundary and
    claim another.
    """

    lease: LeaseId
    slot: SlotId
    cause: RetireReason


@dataclass(frozen=True, slots=True)
class SeatsLost(Action):
    """These leases are over; each is reported exactly once."""

    slot: SlotId
    leases: tuple[LeaseId, ...]
    cause: RetireReason
    text: str


@dataclass(frozen=True, slots=True)
class Probe(Action):
    """Check that the process responds; answered by ProbeAnswered or ProbeMissed."""

    slot: SlotId


@dataclass(frozen=True, slots=True)
class WakeAt(Action):
    """Send a Tick at this time. The latest WakeAt replaces the earlier ones."""

    time: float


@dataclass(frozen=True, slots=True)
class ForgetKey(Action):
    """The core has forgotten an unused key: register it again before its next claim."""

    key: Key


@dataclass(frozen=True, slots=True)
class Notable(Action):
    """Something to log and count; it needs no other action."""

    what: Counted
    key: Key | None = None
    slot: SlotId | None = None
    cause: RetireReason | None = None
    text: str = ""
