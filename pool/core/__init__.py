"""The pool's decisions as a value machine: `(event, now) -> actions`.

Rules:
- No I/O, no clock, no randomness, no asyncio: the same events at the same times give the same actions.
- Only `PoolCore(Limits()).handle(event, now)` changes the state: events go in, actions come out. All other calls read.
"""

from ostler.pool.core import actions as actions
from ostler.pool.core import events as events
from ostler.pool.core.census import KeyView as KeyView
from ostler.pool.core.census import LeaseView as LeaseView
from ostler.pool.core.census import SeatQueueView as SeatQueueView
from ostler.pool.core.census import SlotView as SlotView
from ostler.pool.core.census import Snapshot as Snapshot
from ostler.pool.core.machine import PoolCore as PoolCore
from ostler.pool.core.records import ImpossibleTransition as ImpossibleTransition
from ostler.pool.core.settings import Limits as Limits
from ostler.pool.core.sizing import ReserveRule as ReserveRule
from ostler.pool.core.values import ClaimId as ClaimId
from ostler.pool.core.values import CoreSharing as CoreSharing
from ostler.pool.core.values import Counted as Counted
from ostler.pool.core.values import Key as Key
from ostler.pool.core.values import KeySpec as KeySpec
from ostler.pool.core.values import LeaseId as LeaseId
from ostler.pool.core.values import MissReason as MissReason
from ostler.pool.core.values import Owner as Owner
from ostler.pool.core.values import PoolCensus as PoolCensus
from ostler.pool.core.values import RefusalKind as RefusalKind
from ostler.pool.core.values import RetireReason as RetireReason
from ostler.pool.core.values import SeatId as SeatId
from ostler.pool.core.values import SeatState as SeatState
from ostler.pool.core.values import SettingsError as SettingsError
from ostler.pool.core.values import SlotId as SlotId
from ostler.pool.core.values import SlotState as SlotState
from ostler.pool.core.values import Traits as Traits
from ostler.pool.core.values import Warmth as Warmth
