"""What the pool can be told. Every event is a fact or a wish; none carries behaviour. Jitter is a number in
[0, 1) drawn by the shell, because the core draws nothing.
"""

from dataclasses import dataclass
from typing import TypeAlias

from ostler.pool.core.settings import Limits
from ostler.pool.core.values import ClaimId, Key, KeySpec, LeaseId, Owner, SeatId, SlotId


@dataclass(frozen=True, slots=True)
class KeyRegistered:
    """A key, or a key's new configuration: the same event, told again whenever the spec changes."""

    key: Key
    spec: KeySpec


@dataclass(frozen=True, slots=True)
class Claim:
    """Somebody wants a seat with these tools, or (`tools is None`) the key's shared transport.

    `learn` False: the claim says nothing of those to come, so nothing is kept warm for its like (a seat that brings one
    certain session back, a process of a session's own).
    """

    claim: ClaimId
    key: Key
    tools: str | None
    owner: Owner
    deadline: float
    parent: LeaseId | None = None
    learn: bool = True


@dataclass(frozen=True, slots=True)
class ClaimAbandoned:
    """The claimer is gone, before or after it was granted."""

    claim: ClaimId


@dataclass(frozen=True, slots=True)
class LeaseReleased:
    lease: LeaseId
    generation: int


@dataclass(frozen=True, slots=True)
class Answered:
    """The lease's first answer has begun, or its first turn is over without one: nobody waits for it any more."""

    lease: LeaseId


@dataclass(frozen=True, slots=True)
class SlotStarted:
    slot: SlotId
    jitter: float


@dataclass(frozen=True, slots=True)
class SlotStartFailed:
    """`retryable` False: nothing but a claim (or Reconnect) tries again before the breaker's cool-down. `shortage`:
    this machine had no room, descriptors or processes for it.
    """

    slot: SlotId
    phase: str
    text: str
    jitter: float
    retryable: bool = True
    shortage: bool = False


@dataclass(frozen=True, slots=True)
class SlotDied:
    """The process ended by itself. `text` has pid, exit code and the last of stderr."""

    slot: SlotId
    text: str


@dataclass(frozen=True, slots=True)
class SlotSpent:
    """The process ended with the one session it held, as its provider says it does: nothing went wrong."""

    slot: SlotId


@dataclass(frozen=True, slots=True)
class SlotGone:
    """The whole process tree is reaped; only now does it stop counting against the caps."""

    slot: SlotId


@dataclass(frozen=True, slots=True)
class SeatMade:
    """The agent has answered and may be asked for the next one; of this one, tools or the end of a replay are still to
    come. Nobody has to say it: a seat that is opened, or fails, was made as well."""

    seat: SeatId


@dataclass(frozen=True, slots=True)
class SeatOpened:
    seat: SeatId


@dataclass(frozen=True, slots=True)
class SeatOpenFailed:
    seat: SeatId
    text: str


@dataclass(frozen=True, slots=True)
class SeatClosed:
    """`clean` False: the agent could not really close it, so it lives on inside the process."""

    seat: SeatId
    clean: bool


@dataclass(frozen=True, slots=True)
class SeatBroken:
    """A parked or leased seat lost its tool relay: nobody may get it, and whoever has it should take another."""

    seat: SeatId


@dataclass(frozen=True, slots=True)
class MemorySampled:
    """`size`: its share of the machine, for the budget; `own`: what it took for itself, to see it grow; `sessions`: of
    how many, for a seat is on the books before it weighs anything."""

    slot: SlotId
    size: int
    own: int
    sessions: int


@dataclass(frozen=True, slots=True)
class ProbeAnswered:
    slot: SlotId


@dataclass(frozen=True, slots=True)
class ProbeMissed:
    slot: SlotId


@dataclass(frozen=True, slots=True)
class Hint:
    """A session with this key is likely to go on: have one seat ready for a while."""

    key: Key
    tools: str


@dataclass(frozen=True, slots=True)
class KeepWarm:
    """Keep at least this many seats parked from now on; 0 takes the floor away."""

    key: Key
    tools: str
    seats: int


@dataclass(frozen=True, slots=True)
class Pause:
    """No grants and no starts for the key, or for all (`None`); claims wait until their deadline."""

    key: Key | None = None


@dataclass(frozen=True, slots=True)
class Resume:
    key: Key | None = None


@dataclass(frozen=True, slots=True)
class DrainKey:
    key: Key


@dataclass(frozen=True, slots=True)
class StopWarming:
    """Keep nothing warm for the key and let its processes end, until somebody asks for it again."""

    key: Key


@dataclass(frozen=True, slots=True)
class LimitsChanged:
    """Other limits from now on. What they leave no place for goes when nobody has it; no lease is cut short."""

    limits: Limits


@dataclass(frozen=True, slots=True)
class Recycle:
    """Replace this process, then retire it."""

    slot: SlotId


@dataclass(frozen=True, slots=True)
class Kill:
    slot: SlotId


@dataclass(frozen=True, slots=True)
class Reconnect:
    """Forget the key's start failures: the operator mended the cause."""

    key: Key


@dataclass(frozen=True, slots=True)
class Tick:
    """Time passed. All that falls due by the clock alone falls due here."""


@dataclass(frozen=True, slots=True)
class Shutdown:
    pass


CoreEvent: TypeAlias = (
    KeyRegistered
    | Claim
    | ClaimAbandoned
    | LeaseReleased
    | Answered
    | SlotStarted
    | SlotStartFailed
    | SlotDied
    | SlotSpent
    | SlotGone
    | SeatMade
    | SeatOpened
    | SeatOpenFailed
    | SeatClosed
    | SeatBroken
    | MemorySampled
    | ProbeAnswered
    | ProbeMissed
    | Hint
    | KeepWarm
    | Pause
    | Resume
    | DrainKey
    | StopWarming
    | LimitsChanged
    | Recycle
    | Kill
    | Reconnect
    | Tick
    | Shutdown
)
