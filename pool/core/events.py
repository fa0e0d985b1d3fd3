"""Every event that the pool core accepts.

Rules: an event is a fact or a wish and carries no behaviour. Jitter is a number in [0, 1) drawn by the runner, because
the core draws no random numbers.
"""

from dataclasses import dataclass

from ostler.pool.core.settings import Limits
from ostler.pool.core.values import ClaimId, Key, KeySpec, LeaseId, Owner, ResumeToken, SeatId, SeatTools, SlotId


class CoreEvent:
    """The base of every event."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class KeyRegistered(CoreEvent):
    """A key, or the new configuration of a known key: sent again whenever its spec changes."""

    key: Key
    spec: KeySpec


@dataclass(frozen=True, slots=True)
class Claim(CoreEvent):
    """A caller wants a seat with these tools.

    `resume`: given, the claim wants a seat of its own, opened with this value (`OpenSeat.resume`) and granted to no
    other claim. `learn` False: the claim predicts no further claims, so nothing is kept warm because of it (a process
    that belongs to one session). A claim with `resume` predicts none either.
    """

    claim: ClaimId
    key: Key
    tools: SeatTools
    owner: Owner
    deadline: float
    parent: LeaseId | None = None
    learn: bool = True
    resume: ResumeToken = None


@dataclass(frozen=True, slots=True)
class ClaimAbandoned(CoreEvent):
    """The caller gave up, before or after the claim was granted."""

    claim: ClaimId


@dataclass(frozen=True, slots=True)
class LeaseReleased(CoreEvent):
    lease: LeaseId


@dataclass(frozen=True, slots=True)
class Answered(CoreEvent):
    """The first answer on this lease has begun, or its first turn ended without one: no answer is pending any more."""

    lease: LeaseId


@dataclass(frozen=True, slots=True)
class SlotStarted(CoreEvent):
    slot: SlotId
    jitter: float


@dataclass(frozen=True, slots=True)
class SlotStartFailed(CoreEvent):
    """The start failed.

    `retryable` False: until the breaker's cool-down is over, only a claim (or Reconnect) starts it again. `shortage`:
    this machine had too little memory, too few descriptors or too few processes for it.
    """

    slot: SlotId
    phase: str
    text: str
    jitter: float
    retryable: bool = True
    shortage: bool = False


@dataclass(frozen=True, slots=True)
class SlotDied(CoreEvent):
    """The process ended by itself. `text` holds its pid, its exit code and the last lines of stderr."""

    slot: SlotId
    text: str


@dataclass(frozen=True, slots=True)
class SlotSpent(CoreEvent):
    """The process ended together with the one session it held, as its provider declares: this is no failure."""

    slot: SlotId


@dataclass(frozen=True, slots=True)
class SlotGone(CoreEvent):
    """The whole process tree is reaped; only now does the process stop counting against the caps."""

    slot: SlotId


@dataclass(frozen=True, slots=True)
class SeatMade(CoreEvent):
    """The agent has answered the open and may be asked for the next one; this seat still waits for its tools or for the
    end of a replay. Optional: a seat that is opened or fails counts as made too.
    """

    seat: SeatId


@dataclass(frozen=True, slots=True)
class SeatOpened(CoreEvent):
    seat: SeatId


@dataclass(frozen=True, slots=True)
class SeatOpenFailed(CoreEvent):
    seat: SeatId
    text: str


@dataclass(frozen=True, slots=True)
class SeatClosed(CoreEvent):
    """`clean` False: the agent could not really close the session, so it lives on inside the process."""

    seat: SeatId
    clean: bool


@dataclass(frozen=True, slots=True)
class SeatBroken(CoreEvent):
    """A parked or leased seat lost its tool relay: it is never granted, and its holder should take another seat."""

    seat: SeatId


@dataclass(frozen=True, slots=True)
class MemorySampled(CoreEvent):
    """A measurement. `size`: the process's share of the machine's memory, for the budget; `own`: its own memory, to see
    it grow; `sessions`: the sessions it holds, because a seat is recorded before it uses any memory.
    """

    slot: SlotId
    size: int
    own: int
    sessions: int


@dataclass(frozen=True, slots=True)
class ProbeAnswered(CoreEvent):
    slot: SlotId


@dataclass(frozen=True, slots=True)
class ProbeMissed(CoreEvent):
    slot: SlotId


@dataclass(frozen=True, slots=True)
class KeepWarm(CoreEvent):
    """Keep at least this many seats parked from now on; 0 removes the floor."""

    key: Key
    tools: SeatTools
    seats: int


@dataclass(frozen=True, slots=True)
class Pause(CoreEvent):
    """Grant and start nothing for the key, or for all keys (`None`); claims wait until their deadline."""

    key: Key | None = None


@dataclass(frozen=True, slots=True)
class Resume(CoreEvent):
    key: Key | None = None


@dataclass(frozen=True, slots=True)
class DrainKey(CoreEvent):
    key: Key


@dataclass(frozen=True, slots=True)
class StopWarming(CoreEvent):
    """Keep nothing warm for the key and let its processes end, until a caller asks for the key again."""

    key: Key


@dataclass(frozen=True, slots=True)
class LimitsChanged(CoreEvent):
    """Other limits from now on. Processes over a lowered cap end when they have no leases; no lease is cut short."""

    limits: Limits


@dataclass(frozen=True, slots=True)
class Recycle(CoreEvent):
    """Replace this process, then retire it."""

    slot: SlotId


@dataclass(frozen=True, slots=True)
class Kill(CoreEvent):
    slot: SlotId


@dataclass(frozen=True, slots=True)
class Reconnect(CoreEvent):
    """Forget the key's start failures: the operator has fixed their cause."""

    key: Key


@dataclass(frozen=True, slots=True)
class Tick(CoreEvent):
    """Time passed. Everything that is due by the clock alone is done on a Tick."""


@dataclass(frozen=True, slots=True)
class Shutdown(CoreEvent):
    pass
