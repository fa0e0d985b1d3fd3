"""The pool's decisions as a value machine: `(event, now) -> actions`.

Rules:
- No I/O, no clock, no randomness, no asyncio: the same events at the same times give the same actions.
- Only `PoolCore(Limits()).handle(event, now)` changes the state: events go in, actions come out. All other calls read.
"""

from ostler.pool.core import actions, events
from ostler.pool.core.census import KeyView, LeaseView, SeatQueueView, SlotView, Snapshot
from ostler.pool.core.machine import PoolCore
from ostler.pool.core.records import ImpossibleTransition
from ostler.pool.core.settings import Limits
from ostler.pool.core.sizing import ReserveRule
from ostler.pool.core.values import (
    ClaimId,
    CoreSharing,
    Counted,
    Key,
    KeySpec,
    LeaseId,
    MissReason,
    Owner,
    PoolCensus,
    RefusalKind,
    RetireReason,
    SeatId,
    SeatState,
    SettingsError,
    SlotId,
    SlotState,
    Traits,
    Warmth,
)

__all__ = [
    "ClaimId",
    "CoreSharing",
    "Counted",
    "ImpossibleTransition",
    "Key",
    "KeySpec",
    "KeyView",
    "LeaseId",
    "LeaseView",
    "Limits",
    "MissReason",
    "Owner",
    "PoolCensus",
    "PoolCore",
    "RefusalKind",
    "ReserveRule",
    "RetireReason",
    "SeatId",
    "SeatQueueView",
    "SeatState",
    "SettingsError",
    "SlotId",
    "SlotState",
    "SlotView",
    "Snapshot",
    "Traits",
    "Warmth",
    "actions",
    "events",
]
