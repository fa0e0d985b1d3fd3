"""The pool's decisions as a value machine: `(event, now) -> actions`. No I/O, clock, randomness or asyncio.

`PoolCore(Limits()).handle(event, now)`: events and actions are the whole conversation with the shell.
"""

from ostler.pool.core import actions, events
from ostler.pool.core.census import KeyView, LeaseView, LineView, SlotView, Snapshot
from ostler.pool.core.machine import PoolCore
from ostler.pool.core.settings import Limits
from ostler.pool.core.sizing import ReserveRule
from ostler.pool.core.transitions import ImpossibleTransition
from ostler.pool.core.values import (
    Cause,
    Census,
    ClaimId,
    Counted,
    Key,
    KeySpec,
    LeaseId,
    Miss,
    Owner,
    Refusal,
    SeatId,
    SeatState,
    SettingsError,
    Sharing,
    SlotId,
    SlotState,
    Traits,
    Warmth,
)

__all__ = [
    "Cause",
    "Census",
    "ClaimId",
    "Counted",
    "ImpossibleTransition",
    "Key",
    "KeySpec",
    "KeyView",
    "LeaseId",
    "LeaseView",
    "Limits",
    "LineView",
    "Miss",
    "Owner",
    "PoolCore",
    "Refusal",
    "ReserveRule",
    "SeatId",
    "SeatState",
    "SettingsError",
    "Sharing",
    "SlotId",
    "SlotState",
    "SlotView",
    "Snapshot",
    "Traits",
    "Warmth",
    "actions",
    "events",
]
