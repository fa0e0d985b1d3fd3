"""The pool state: every record and index, and the few moves that keep them consistent with each other.

Rules:
- Only this file adds to or removes from an index, its own or a record's, so no two indexes can disagree
  (`tests/pool/core/test_indexes.py` checks it).
- Ids come from one counter and are never used twice.
- Every decision is recorded here before its action is returned: there is nothing to undo.
- The deciding modules import the record types from here as well, together with the moves.
"""

from dataclasses import dataclass, field

from ostler.pool.core import actions
from ostler.pool.core.breaker import Breaker
from ostler.pool.core.queueing import OwnerTurns, Waiting
from ostler.pool.core.records import KeyState, SeatQueue, SeatRecord, SlotRecord, open_group
from ostler.pool.core.settings import Limits
from ostler.pool.core.sizing import Arrivals
from ostler.pool.core.values import (
    ClaimId,
    Counted,
    Key,
    KeySpec,
    LeaseId,
    QueueId,
    ResumeToken,
    RetireReason,
    SeatId,
    SeatState,
    SlotId,
    SlotState,
)

__all__ = ["KeyState", "PoolState", "SeatQueue", "SeatRecord", "SlotRecord", "StaleEvent", "open_group"]


class StaleEvent(Exception):  # not an error: a lookup uses it to say "not there"
    """The event names something that is not, or no longer, in the state. Raised before anything is recorded."""


@dataclass(slots=True, eq=False)
class PoolState:
    limits: Limits
    now: float = 0.0
    step: int = 0
    out: list[actions.Action] = field(default_factory=list)
    keys: dict[Key, KeyState] = field(default_factory=dict)
    slots: dict[SlotId, SlotRecord] = field(default_factory=dict)
    seats: dict[SeatId, SeatRecord] = field(default_factory=dict)
    leases: dict[LeaseId, SeatRecord] = field(default_factory=dict)
    claims: dict[ClaimId, Waiting] = field(default_factory=dict)
    granted: dict[ClaimId, LeaseId] = field(default_factory=dict)
    nested: dict[ClaimId, Waiting] = field(default_factory=dict)
    opening: dict[SeatId, SeatRecord] = field(default_factory=dict)
    closing: dict[SeatId, SeatRecord] = field(default_factory=dict)
    open_groups: dict[str | SlotId, int] = field(default_factory=dict)
    spares: dict[SlotId, SlotRecord] = field(default_factory=dict)
    first_answer_pending: dict[SlotId, float] = field(default_factory=dict)
    settled_groups: set[str | None] = field(default_factory=set)
    """The HOME groups in which a process has become ready."""
    breakers: dict[tuple[str, str], Breaker] = field(default_factory=dict)
    turns: OwnerTurns = field(default_factory=OwnerTurns)
    unserved_keys: dict[Key, KeyState] = field(default_factory=dict)
    capacity_changed: bool = False
    paused: bool = False
    closed: bool = False
    calm_at: float = float("-inf")
    """When the pool was last calm: no start or open for a waiting claim, and no first answer pending."""
    starting: int = 0
    charged: int = 0
    tokens: float = 0.0
    tokens_at: float = 0.0
    hold_seconds: float = 10.0
    wake_at: float = float("inf")
    announced: float = float("inf")
    recount_spares: bool = False
    last_id: int = 0

    def __post_init__(self) -> None:
        self.tokens = float(self.limits.start_burst)

    @property
    def tokens_now(self) -> float:
        """The tokens for starts that the bucket holds now, at the present rate."""
        earned = (self.now - self.tokens_at) * self.limits.starts_per_second
        return min(float(self.limits.start_burst), self.tokens + earned)

    def begin(self, now: float) -> None:
        """Begin the step of one event. Time only moves forward here, even if the caller's clock goes back."""
        self.now = max(self.now, now)
        self.step += 1
        self.out = []

    def emit(self, action: actions.Action) -> None:
        self.out.append(action)

    def note(
        self, what: Counted, slot: SlotRecord | None = None, cause: RetireReason | None = None, text: str = ""
    ) -> None:
        key = slot.key if slot is not None else None
        self.emit(actions.Notable(what, key, slot.id if slot is not None else None, cause, text))

    def alarm(self, at: float) -> None:
        """Make sure that a Tick comes at this time or earlier."""
        self.wake_at = min(self.wake_at, at)

    def new_id(self) -> int:
        self.last_id += 1
        return self.last_id

    # lookups for an event

    def find_key(self, key: Key) -> KeyState:
        key_state = self.keys.get(key)
        if key_state is None:
            raise StaleEvent
        return key_state

    def find_slot(self, number: SlotId, *states: SlotState) -> SlotRecord:
        slot = self.slots.get(number)
        if slot is None or slot.state not in states:
            raise StaleEvent
        return slot

    def find_seat(self, number: SeatId, *states: SeatState) -> SeatRecord:
        seat = self.seats.get(number)
        if seat is None or seat.state not in states:
            raise StaleEvent
        return seat

    def find_lease(self, number: LeaseId | None) -> SeatRecord:
        """The seat that is leased by this number."""
        seat = None if number is None else self.leases.get(number)
        if seat is None:
            raise StaleEvent
        return seat

    # keys

    def add_key(self, key: Key, spec: KeySpec) -> KeyState:
        key_state = self.keys[key] = KeyState(key, spec, self.now)
        return key_state

    def remove_key(self, key_state: KeyState) -> None:
        del self.keys[key_state.key]
        self.unserved_keys.pop(key_state.key, None)

    def get_or_add_queue(self, key_state: KeyState, name: QueueId, resume: ResumeToken = None) -> SeatQueue:
        """The seat queue of this name, created on first use."""
        queue = key_state.queues.get(name)
        if queue is None:
            queue = key_state.queues[name] = SeatQueue(name, resume, Arrivals(self.limits.reserve))
        return queue

    def remove_queue(self, key_state: KeyState, queue: SeatQueue) -> None:
        del key_state.queues[queue.id]

    def mark_unserved(self, key_state: KeyState) -> None:
        """The key lacks something: settle it again when capacity changes."""
        self.unserved_keys[key_state.key] = key_state

    def mark_all_unserved(self) -> None:
        """Settle every key again."""
        self.unserved_keys = dict(self.keys)
        self.capacity_changed = True

    def take_unserved(self) -> list[KeyState]:
        """The unserved keys, in the order of their owners' turns; each is marked again if it still lacks something."""
        self.capacity_changed = False
        unserved, self.unserved_keys = list(self.unserved_keys.values()), {}
        if len(unserved) > 1:
            unserved.sort(key=self.rank)
        return unserved

    def forget_keys(self) -> None:
        """The pool is closed: no key is served any more."""
        for index in (self.keys, self.breakers, self.unserved_keys):
            index.clear()
        self.recount_spares = False

    # failures of starts

    def get_or_add_breaker(self, group: tuple[str, str]) -> Breaker:
        return self.breakers.setdefault(group, Breaker())

    def remove_breaker(self, group: tuple[str, str]) -> None:
        self.breakers.pop(group, None)

    # claims

    def enqueue(self, waiting: Waiting, queue: SeatQueue) -> None:
        self.claims[waiting.claim] = waiting
        if waiting.parent is not None:
            self.nested[waiting.claim] = waiting
        queue.claims.add(waiting)
        self.turns.join(waiting.owner)
        self.alarm(waiting.deadline)

    def dequeue(self, waiting: Waiting) -> None:
        claims = self.keys[waiting.key].queues[waiting.queue].claims
        del self.claims[waiting.claim]
        self.nested.pop(waiting.claim, None)
        claims.remove(waiting)
        self.turns.leave(waiting.owner)
        if not claims.count:
            self.capacity_changed = True  # the key's process may now be idle and make room for another

    def take_turns(self, key_state: KeyState) -> None:
        """A process is started for the key: the owners that come first in its queues have had their turn."""
        for queue in key_state.queues.values():
            if (head := queue.claims.head()) is not None:
                self.turns.took(head.owner)

    def rank(self, key_state: KeyState) -> int:
        """Rank a key for settling: the key whose waiting owner had its last turn longest ago comes first."""
        turns = self.turns
        rank = turns.of(None)
        for queue in key_state.queues.values():
            if queue.claims.count and (turn := turns.of(queue.claims.head())) < rank:
                rank = turn
        return rank

    # slots

    def add_slot(self, key: Key, spec: KeySpec, key_state: KeyState | None, charge: int) -> SlotRecord:
        slot = SlotRecord(SlotId(self.new_id()), key, spec, self.now, self.now, key_state, used_at=self.now)
        self.slots[slot.id] = slot
        if key_state is None:
            self.spares[slot.id] = slot
        else:
            key_state.slots[slot.id] = slot
        self.starting += 1
        self.charge(slot, charge)
        return slot

    def adopt(self, slot: SlotRecord, key_state: KeyState) -> None:
        del self.spares[slot.id]
        self.recount_spares = True
        self._assign(slot, key_state)

    def _assign(self, slot: SlotRecord, key_state: KeyState) -> None:
        slot.key_state, slot.key, slot.spec = key_state, key_state.key, key_state.spec
        key_state.came_up = key_state.came_up or slot.state is SlotState.READY
        slot.adopted_step, slot.used_at = self.step, self.now
        key_state.slots[slot.id] = slot

    def take_over(self, slot: SlotRecord, reserve: KeyState, key_state: KeyState) -> None:
        """Move a process that no session has used to another key, with its seats."""
        del reserve.slots[slot.id]
        self._assign(slot, key_state)
        for seat in slot.seats.values():
            before, seat.key_state, seat.queue = (
                seat.queue,
                key_state,
                self.get_or_add_queue(key_state, seat.queue.id, seat.queue.resume),
            )
            if seat.state is SeatState.OPENING:
                before.opening -= 1
                seat.queue.opening += 1
            elif seat.state is SeatState.PARKED:
                seat.queue.parked[seat.id] = before.parked.pop(seat.id)
        self.mark_unserved(reserve)
        self.capacity_changed = True

    def enter(self, slot: SlotRecord, state: SlotState) -> None:
        if slot.state is SlotState.STARTING:
            self.starting -= 1
            self.capacity_changed = True
            if state is SlotState.READY:
                self.settled_groups.add(slot.spec.traits.open_group)
        slot.enter(state, self.now)

    def remove_slot(self, slot: SlotRecord) -> None:
        self.enter(slot, SlotState.GONE)
        self.charge(slot, 0)
        del self.slots[slot.id]
        if slot.key_state is not None:
            del slot.key_state.slots[slot.id]
        else:
            del self.spares[slot.id]
        self.recount_spares = True
        self.capacity_changed = True

    def charge(self, slot: SlotRecord, size: int) -> None:
        """Count this much memory against the budget: the expected size until measured, and until the tree is reaped."""
        self.charged += size - slot.charge
        slot.charge = size

    # seats

    def add_seat(self, key_state: KeyState, slot: SlotRecord, queue: SeatQueue) -> SeatRecord:
        group = open_group(slot)
        seat = SeatRecord(SeatId(self.new_id()), key_state, slot, queue, group, self.now)
        self.seats[seat.id] = slot.seats[seat.id] = self.opening[seat.id] = seat
        slot.opened += 1
        slot.opening += 1
        queue.opening += 1
        self.open_groups[group] = self.open_groups.get(group, 0) + 1
        return seat

    def mark_open_answered(self, seat: SeatRecord) -> None:
        """The agent has answered this open, or its answer no longer matters: the agent may be asked for the next
        one.
        """
        if seat.asked:
            seat.asked = False
            self.open_groups[seat.group] -= 1
            if not self.open_groups[seat.group]:
                del self.open_groups[seat.group]
            self.capacity_changed = True

    def _opened(self, seat: SeatRecord) -> None:
        """The seat has opened, or never will."""
        self.mark_open_answered(seat)
        del self.opening[seat.id]
        seat.slot.opening -= 1
        seat.queue.opening -= 1
        self.capacity_changed = True

    def park(self, seat: SeatRecord) -> None:
        self._opened(seat)
        seat.enter(SeatState.PARKED, self.now)
        seat.parked_step = self.step
        seat.queue.parked[seat.id] = seat
        seat.slot.parked += 1

    def _unpark(self, seat: SeatRecord) -> None:
        del seat.queue.parked[seat.id]
        seat.slot.parked -= 1

    def lease(self, waiting: Waiting, seat: SeatRecord) -> LeaseId:
        """Grant the seat to the claim, whose owner has had its turn with that."""
        slot = seat.slot
        self.dequeue(waiting)
        seat.queue.claims.served(waiting.owner)
        if waiting.owner in self.turns.last:
            self.turns.took(waiting.owner)
        lease = LeaseId(self.new_id())
        self._unpark(seat)
        seat.enter(SeatState.LEASED, self.now)
        seat.lease, seat.claim, seat.owner = lease, waiting.claim, waiting.owner
        slot.served += 1
        if not slot.has_answered:
            self.first_answer_pending.setdefault(slot.id, self.now)
        self.leases[lease] = slot.leases[lease] = seat
        self.granted[waiting.claim] = lease
        slot.used_at = self.now
        return lease

    def end_lease(self, seat: SeatRecord) -> None:
        slot, lease = seat.slot, self.granted.pop(seat.claim)
        del self.leases[lease], slot.leases[lease]
        seat.lease = None
        slot.used_at = self.now
        if not slot.leases:
            self.first_answer_pending.pop(slot.id, None)
        self.capacity_changed = True

    # first answers

    def mark_answered(self, slot: SlotRecord) -> None:
        """Record that the process has answered a prompt, for the first time or again."""
        slot.has_answered = True
        if self.first_answer_pending.pop(slot.id, None) is not None:
            self.capacity_changed = True

    def stop_listening(self) -> None:
        """Stop deferring for a process that has not answered within `give_way` seconds; it may never have been
        prompted.
        """
        overdue = self.now - self.limits.give_way
        for slot in [slot for slot, since in self.first_answer_pending.items() if since <= overdue]:
            self.mark_answered(self.slots[slot])

    def begin_close(self, seat: SeatRecord) -> None:
        """Start closing: the seat takes up room until the agent has really closed it."""
        if seat.state is SeatState.OPENING:
            self._opened(seat)
        elif seat.state is SeatState.PARKED:
            self._unpark(seat)
        seat.enter(SeatState.CLOSING, self.now)
        self.closing[seat.id] = seat

    def remove_seat(self, seat: SeatRecord) -> None:
        if seat.state is SeatState.OPENING:
            self._opened(seat)
        elif seat.state is SeatState.PARKED:
            self._unpark(seat)
        self.closing.pop(seat.id, None)
        seat.enter(SeatState.GONE, self.now)
        del self.seats[seat.id], seat.slot.seats[seat.id]
        self.capacity_changed = True
