"""Room for waiting claims: one memory budget and one process cap over all keys.

Rules:
- A process counts with its expected size until it is measured, and until its tree is reaped.
- Parked seats go first, then spares and idle processes, least recently used first, those that hold a floor last. A
  leased seat is never taken.
- No more is taken than is needed: what is already closing counts as room to come.
"""

from collections.abc import Iterable

from ostler.pool.core.draining import begin_drain
from ostler.pool.core.opens import close_seat
from ostler.pool.core.reserve import key_cap
from ostler.pool.core.state import KeyState, PoolState, SlotRecord
from ostler.pool.core.values import Counted, RetireReason, SeatState, SlotState


def make_room(books: PoolState, stable: KeyState, short: int, *, elsewhere: bool) -> bool:
    """Free capacity for `short` waiting seats of the key. True if some is on its way."""
    if elsewhere:
        dying = sum(slot.state is SlotState.CLOSING for slot in books.slots.values())
        if dying >= len(books.unserved_keys):
            return True
        victim = _least_used(books, stable)
        if victim is not None:
            begin_drain(books, victim, RetireReason.EVICTED)
            return True
        if dying:
            return True
    return _yield_parked(books, stable, short)


def _least_used(books: PoolState, stable: KeyState) -> SlotRecord | None:
    rank = books.rank(stable)
    idle = [
        slot
        for slot in books.slots.values()
        if slot.state is SlotState.READY and slot.idle and slot.stable is not stable
    ]
    return min((slot for slot in idle if not _promised(books, slot, rank)), key=_keep_rank, default=None)


def _promised(books: PoolState, slot: SlotRecord, rank: int) -> bool:
    """Whether the waiting claims of its own key are to be served by this process first: a promised process is not idle.

    A process that was started for a claim serves one claim before it is evicted (else two keys with one place between
    them would evict each other without end). After that, the owner whose last turn is longest ago comes first.
    """
    own = slot.stable
    if own is None or own.paused or not own.waiting:
        return False
    return not slot.served or books.rank(own) <= rank


def _keep_rank(slot: SlotRecord) -> tuple[bool, bool, float]:
    floored = slot.stable is not None and len(slot.stable.slots) <= slot.stable.floor
    return (floored, slot.stable is not None, slot.used_at)


def _yield_parked(books: PoolState, stable: KeyState, short: int) -> bool:
    """Close parked seats of other tool sets on the key's own processes."""
    usable = [slot for slot in stable.slots.values() if slot.state is SlotState.READY and not slot.shunned]
    coming = sum(seat.state is SeatState.CLOSING for slot in usable for seat in slot.seats.values())
    parked = [seat for slot in usable for seat in slot.seats.values() if seat.state is SeatState.PARKED]
    for seat in parked[: max(0, short - coming)]:
        close_seat(books, seat)
    return bool(coming or parked)


def shrink(books: PoolState) -> None:
    """Over a lowered cap: end processes without leases now, and those with leases when the last one has ended."""
    over = _staying(books.slots.values()) - books.limits.max_processes
    for slot in sorted(_free(books), key=_keep_rank):
        crowded = slot.stable is not None and _staying(slot.stable.slots.values()) > key_cap(books, slot.stable)
        if over > 0 or crowded:
            begin_drain(books, slot, RetireReason.SURPLUS)
            over -= 1


def _staying(slots: Iterable[SlotRecord]) -> int:
    return sum(slot.state is not SlotState.CLOSING for slot in slots)


def _free(books: PoolState) -> list[SlotRecord]:
    """READY processes without leases, opens or waiting claims."""
    return [
        slot
        for slot in books.slots.values()
        if slot.state is SlotState.READY and slot.idle and (slot.stable is None or not slot.stable.waiting)
    ]


def shed(books: PoolState) -> None:
    """Over budget: close parked seats and then drain idle processes until the rest fits."""
    budget = books.limits.memory_budget
    if budget is None:
        return
    leaving = sum(slot.charge for slot in books.slots.values() if slot.state is SlotState.CLOSING)
    excess = books.charged - leaving - budget
    if excess <= 0:
        return
    books.note(Counted.OVER_BUDGET, text=f"{excess} bytes over the memory budget of {budget}")
    parked = [seat for seat in books.seats.values() if seat.state is SeatState.PARKED]
    for seat in sorted(parked, key=lambda seat: seat.since):
        if excess <= 0:
            return
        excess -= seat.slot.spec.traits.seat_bytes
        close_seat(books, seat)
        books.unserved_keys[seat.stable.key] = seat.stable  # its claims of another tool set may use this place
    for slot in sorted(_free(books), key=_keep_rank):
        if excess <= 0:
            return
        excess -= slot.charge
        begin_drain(books, slot, RetireReason.MEMORY_BUDGET)
