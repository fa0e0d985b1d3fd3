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


def make_room(state: PoolState, key_state: KeyState, short: int, *, elsewhere: bool) -> bool:
    """Free capacity for `short` waiting seats of the key. True if some is on its way."""
    if elsewhere:
        dying = sum(slot.state is SlotState.CLOSING for slot in state.slots.values())
        if dying >= len(state.unserved_keys):
            return True
        victim = _least_used(state, key_state)
        if victim is not None:
            begin_drain(state, victim, RetireReason.EVICTED)
            return True
        if dying:
            return True
    return _yield_parked(state, key_state, short)


def _least_used(state: PoolState, key_state: KeyState) -> SlotRecord | None:
    rank = state.rank(key_state)
    idle = [
        slot
        for slot in state.slots.values()
        if slot.state is SlotState.READY and slot.idle and slot.key_state is not key_state
    ]
    return min((slot for slot in idle if not _promised(state, slot, rank)), key=_keep_rank, default=None)


def _promised(state: PoolState, slot: SlotRecord, rank: int) -> bool:
    """Whether the waiting claims of its own key are to be served by this process first: a promised process is not idle.

    A process that was started for a claim serves one claim before it is evicted (else two keys with one place between
    them would evict each other without end). After that, the owner whose last turn is longest ago comes first.
    """
    own = slot.key_state
    if own is None or own.paused or not own.waiting:
        return False
    return not slot.served or state.rank(own) <= rank


def _keep_rank(slot: SlotRecord) -> tuple[bool, bool, float]:
    floored = slot.key_state is not None and len(slot.key_state.slots) <= slot.key_state.floor
    return (floored, slot.key_state is not None, slot.used_at)


def _yield_parked(state: PoolState, key_state: KeyState, short: int) -> bool:
    """Close parked seats of other tool sets on the key's own processes."""
    usable = [slot for slot in key_state.slots.values() if slot.state is SlotState.READY and not slot.shunned]
    coming = sum(seat.state is SeatState.CLOSING for slot in usable for seat in slot.seats.values())
    parked = [seat for slot in usable for seat in slot.seats.values() if seat.state is SeatState.PARKED]
    for seat in parked[: max(0, short - coming)]:
        close_seat(state, seat)
    return bool(coming or parked)


def shrink(state: PoolState) -> None:
    """Over a lowered cap: end processes without leases now, and those with leases when the last one has ended."""
    over = _staying(state.slots.values()) - state.limits.max_processes
    for slot in sorted(_free(state), key=_keep_rank):
        crowded = slot.key_state is not None and _staying(slot.key_state.slots.values()) > key_cap(
            state, slot.key_state
        )
        if over > 0 or crowded:
            begin_drain(state, slot, RetireReason.SURPLUS)
            over -= 1


def _staying(slots: Iterable[SlotRecord]) -> int:
    return sum(slot.state is not SlotState.CLOSING for slot in slots)


def _free(state: PoolState) -> list[SlotRecord]:
    """READY processes without leases, opens or waiting claims."""
    return [
        slot
        for slot in state.slots.values()
        if slot.state is SlotState.READY and slot.idle and (slot.key_state is None or not slot.key_state.waiting)
    ]


def shed(state: PoolState) -> None:
    """Over budget: close parked seats and then drain idle processes until the rest fits."""
    budget = state.limits.memory_budget
    if budget is None:
        return
    leaving = sum(slot.charge for slot in state.slots.values() if slot.state is SlotState.CLOSING)
    excess = state.charged - leaving - budget
    if excess <= 0:
        return
    state.note(Counted.OVER_BUDGET, text=f"{excess} bytes over the memory budget of {budget}")
    parked = [seat for seat in state.seats.values() if seat.state is SeatState.PARKED]
    for seat in sorted(parked, key=lambda seat: seat.since):
        if excess <= 0:
            return
        excess -= seat.slot.spec.traits.seat_bytes
        close_seat(state, seat)
        state.mark_unserved(seat.key_state)  # its claims of another tool set may use this place
    for slot in sorted(_free(state), key=_keep_rank):
        if excess <= 0:
            return
        excess -= slot.charge
        begin_drain(state, slot, RetireReason.MEMORY_BUDGET)
