"""What the walk believes of the pool, from actions alone: it never copies from the state it judges."""

import random
from collections import defaultdict, deque
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

from tests.pool.core.worlds import make_limits

TOOLS = ("", "t1", "t2")
OWNERS = ("ann", "bob", "cho", "dan")
EPSILON = 1e-6


def line_of(tools: str, resume: object) -> Any:
    """Who stands in one line: those who want the same tools, and apart from them each who resumes something."""
    return tools if resume is None else (tools, resume)


@dataclass(slots=True, eq=False)
class MirrorSlot:
    key: Any
    fingerprint: str
    provider: str
    capacity: int
    single_use: bool
    group: Any
    parallel: int
    can_close: bool
    spare: bool
    mute: bool
    used_at: float
    state: str = "starting"
    ready_at: float = 0.0
    ready_step: int = -1
    adopted_step: int = -1
    draining_since: float | None = None
    opened: int = 0
    served: int = 0
    used: bool = False
    """Somebody has had it."""
    cancelled_step: int = -1
    heard: bool = False
    unheard_since: float | None = None
    seats: dict[int, "MirrorSeat"] = field(default_factory=dict)
    leases: set[int] = field(default_factory=set)


@dataclass(slots=True, eq=False)
class MirrorSeat:
    slot: int
    tools: Any
    since: float
    mute: bool
    state: str = "opening"
    asked: bool = True
    """Its agent has not answered yet."""
    parked_step: int = -1


@dataclass(slots=True, eq=False)
class MirrorLease:
    claim: int
    key: Any
    slot: int
    seat: int


@dataclass(slots=True, eq=False)
class MirrorClaim:
    key: Any
    tools: Any
    owner: str
    deadline: float
    parent: int | None
    step: int
    since: float = 0.0


class Mirror:
    def __init__(self, lib: ModuleType, seed: int) -> None:
        self.lib, self.events, self.seed = lib, lib.events, seed
        self.rng = random.Random(seed)
        self.now, self.step, self.outcomes, self.asked = 0.0, 0, 0, 0
        self.limits = make_limits(self.rng, lib)
        self.core = lib.PoolCore(self.limits)
        self.state = self.core.state
        self.specs: dict[Any, Any] = {}
        self.slots: dict[int, MirrorSlot] = {}
        self.seats: dict[int, MirrorSeat] = {}
        self.leases: dict[int, MirrorLease] = {}
        self.claims: dict[int, MirrorClaim] = {}
        self.queues: dict[tuple[Any, Any], dict[str, dict[int, MirrorClaim]]] = {}
        self.marks: dict[tuple[Any, Any, str], int] = {}
        self.paused: set[Any] = set()
        self.fails: dict[Any, tuple[int, float]] = {}
        self.shorts: dict[Any, tuple[int, float]] = {}
        """How often in a row this machine had no room for one of them, and when it was last so."""
        self.full_until = 0.0
        """Until then nothing can be started: a disk is full."""
        self.tokens, self.tokens_at = float(self.limits.start_burst), 0.0
        self.wake = float("inf")
        self.closed = False
        self.event: Any = None
        self.last_answer: Any = None
        self.dead: deque[int] = deque([999_999_999], maxlen=200)
        self.marked = 0
        self.crowd, self.queued = 0, 0
        """Processes and waiters that were there when the limits were changed: they may be more than the new ones."""
        self.spared: set[int] = set()
        self.cooled: set[Any] = set()
        """Keys that nobody asked for since they were cooled."""
        self.ceilings: dict[Any, int] = defaultdict(int)
        self.told_broken: int | None = None
        """The seat whose holder was told last that it is broken."""
        self.busy_since: float | None = None
        """Since when, without a break, somebody was being started or opened for, or waited for a first answer."""

    # mirror bookkeeping

    def _next_mark(self) -> int:
        """Owners stand in line in the order of their last grant, or of joining."""
        self.marked += 1
        return self.marked

    def _is_paused(self, key: Any) -> bool:
        return None in self.paused or key in self.paused

    def _group(self, key: Any) -> Any:
        spec = self.specs[key]
        return (spec.provider, spec.fingerprint)

    def _slot_group(self, slot: MirrorSlot) -> Any:
        return (slot.provider, slot.fingerprint)

    def _failed(self, slot: MirrorSlot) -> None:
        count, _ = self.fails.get(self._slot_group(slot), (0, 0.0))
        self.fails[self._slot_group(slot)] = (count + 1, self.now)

    def _fell_short(self, slot: MirrorSlot) -> None:
        count, _ = self.shorts.get(self._slot_group(slot), (0, 0.0))
        self.shorts[self._slot_group(slot)] = (count + 1, self.now)

    def _prove_old(self) -> None:
        for slot in self.slots.values():
            if slot.state == "ready" and self.now - slot.ready_at > 10.0:
                self._proven(slot)

    def _proven(self, slot: MirrorSlot) -> None:
        group = self._slot_group(slot)
        self.fails.pop(group, None)
        _, at = self.shorts.get(group, (0, self.now))
        if slot.ready_at > at or self.now - at >= 2.0 * self.limits.backoff_cap:
            self.shorts.pop(group, None)

    def _forget_claim(self, number: int) -> None:
        claim = self.claims.pop(number)
        owners = self.queues[claim.key, claim.tools]
        del owners[claim.owner][number]
        if not owners[claim.owner]:
            del owners[claim.owner]
        if not owners:
            del self.queues[claim.key, claim.tools]

    def _end_lease(self, number: int) -> None:
        lease = self.leases.pop(number)
        slot = self.slots[lease.slot]
        slot.leases.discard(number)
        if not slot.leases:
            slot.unheard_since = None
        slot.used_at = self.now
        self.dead.append(number)

    def _is_unheard(self, slot: MirrorSlot) -> bool:
        since = slot.unheard_since
        return since is not None and self.now < since + self.limits.give_way - EPSILON

    def _stop_listening(self) -> None:
        for slot in self.slots.values():
            if slot.unheard_since is not None and self.now - slot.unheard_since >= self.limits.give_way:
                slot.heard, slot.unheard_since = True, None

    def _is_busy(self) -> bool:
        slots = self.slots.values()
        if any(map(self._is_unheard, slots)):
            return True
        starting = any(slot.state == "starting" for slot in slots)
        opening = any(seat.state == "opening" for seat in self.seats.values())
        return bool(self.claims) and (starting or opening)

    def _note_busy(self) -> None:
        if not self._is_busy():
            self.busy_since = None
        elif self.busy_since is None:
            self.busy_since = self.now

    def _drop_seat(self, number: int) -> None:
        seat = self.seats.pop(number)
        self.slots[seat.slot].seats.pop(number)
        self.dead.append(number)
