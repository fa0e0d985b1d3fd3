"""The one outcome of every claim: granted or refused, never both, never neither.

Rules:
- Granting and recording are one step. Only READY processes that are not shunned are granted.
- The warmth on a grant is judged by what happened between claim and grant, by steps and not by the clock. A seat that
  was parked before the claim is a hit; a process that became ready after it makes the claim cold, however warm the pool
  looked.
"""

from ostler.pool.core.actions import Grant, Refuse
from ostler.pool.core.census import census
from ostler.pool.core.queueing import FairQueue, Waiting
from ostler.pool.core.state import KeyState, PoolState, SeatRecord, SlotRecord
from ostler.pool.core.values import MissReason, RefusalKind, SlotState, Warmth


def serve(books: PoolState, stable: KeyState) -> None:
    """Grant what is ready to the claims that wait for it."""
    shared = shared_slot(stable) if stable.transports.count else None
    while shared is not None and (waiting := stable.transports.head()) is not None:
        grant(books, waiting, stable.transports, shared, None)
    for line in stable.queues.values():
        while line.parked and (waiting := line.ring.head()) is not None:
            seat = min(line.parked.values(), key=lambda seat: seat.slot.retire is not None)
            grant(books, waiting, line.ring, seat.slot, seat)


def shared_slot(stable: KeyState) -> SlotRecord | None:
    """The process that every transport claim of the key gets: the oldest that is not being replaced."""
    serving = [slot for slot in stable.slots.values() if slot.state is SlotState.READY and not slot.shunned]
    return min(serving, key=lambda slot: (slot.retire is not None, slot.id), default=None)


def grant(books: PoolState, waiting: Waiting, ring: FairQueue, slot: SlotRecord, seat: SeatRecord | None) -> None:
    books.dequeue(waiting, ring)
    ring.served(waiting.owner)
    if waiting.owner in books.turns.last:
        books.turns.took(waiting.owner)
    lease = books.lease(waiting, slot, seat)
    warmth = _warmth(waiting, slot, seat)
    miss = MissReason.NONE if warmth is Warmth.PARKED else waiting.miss
    waited = books.now - waiting.since
    seat_id = None if seat is None else seat.id
    books.emit(Grant(waiting.claim, lease.id, lease.generation, waiting.key, slot.id, seat_id, warmth, miss, waited))


def _warmth(waiting: Waiting, slot: SlotRecord, seat: SeatRecord | None) -> Warmth:
    if seat is not None and seat.parked_step < waiting.step:
        return Warmth.PARKED
    if slot.ready_step > waiting.step:
        return Warmth.COLD
    if slot.adopted_step >= waiting.step:
        return Warmth.SPARE
    return Warmth.WARM


def refuse(
    books: PoolState,
    waiting: Waiting,
    kind: RefusalKind,
    *,
    phase: str = "",
    text: str = "",
    retry_after: float | None = None,
) -> None:
    """End a waiting claim with an error that names its cause."""
    books.dequeue(waiting, books.ring_of(waiting))
    if retry_after is None and kind is RefusalKind.SATURATED:
        retry_after = patience(books)
    if not text and (breaker := books.breakers.get(books.stables[waiting.key].spec.group)) is not None:
        phase, text = breaker.last.phase, breaker.last.text
    waited = books.now - waiting.since
    books.emit(Refuse(waiting.claim, kind, waited, census(books), retry_after, phase, text))


def patience(books: PoolState) -> float:
    """When the next lease is likely to end: the mean time for which a lease is held, divided by the leases now held."""
    return min(60.0, max(0.1, books.hold_seconds / max(1, len(books.leases))))


def why_missed(books: PoolState, stable: KeyState, waiting: Waiting) -> MissReason:
    """Why a parked seat cannot serve the claim, judged on arrival."""
    if waiting.tools is None:
        return MissReason.TRANSPORT
    if books.paused or stable.paused:
        return MissReason.PAUSED
    breaker = books.breakers.get(stable.spec.group)
    if breaker is not None and breaker.claims_after > books.now:
        return MissReason.BACKOFF
    if any(slot.room for slot in stable.slots.values()):
        first = stable.queues[waiting.tools].arrivals.mass == 0.0
        return MissReason.FIRST_USE if first else MissReason.RESERVE_EMPTY
    return _without_room(stable)


def _without_room(stable: KeyState) -> MissReason:
    slots = stable.slots.values()
    if any(slot.state is SlotState.READY and not slot.shunned for slot in slots):
        return MissReason.FULL
    if any(slot.state is SlotState.STARTING for slot in slots):
        return MissReason.STARTING
    return MissReason.REPLACING if slots else MissReason.NO_PROCESS
