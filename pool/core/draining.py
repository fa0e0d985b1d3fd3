"""The end of a process.

Rules:
- A drain waits for leases only, never for seats without one. It asks every lease to move and ends when the last lease
  has ended, or at its deadline.
- A stop that is not answered in time is ordered again, as a hard stop.
- The loss of a lease is reported once, in the same step in which the lease leaves the state.
"""

from ostler.pool.core.actions import MoveRequested, SeatsLost, StopSlot
from ostler.pool.core.opens import close_seat
from ostler.pool.core.state import PoolState, SlotRecord
from ostler.pool.core.values import Counted, RetireReason, SeatState, SlotState


def begin_drain(state: PoolState, slot: SlotRecord, cause: RetireReason) -> None:
    """READY -> DRAINING: the process gets nothing new, and each of its leases moves at its next turn boundary."""
    slot.retire = slot.retire or cause
    shun(state, slot)
    state.enter(slot, SlotState.DRAINING)
    state.alarm(state.now + state.limits.drain_timeout)
    for lease in slot.leases:
        state.emit(MoveRequested(lease, slot.id, slot.retire))
    finish_drain(state, slot)


def finish_drain(state: PoolState, slot: SlotRecord) -> None:
    """Stop a draining process once it has no leases."""
    if slot.state is SlotState.DRAINING and not slot.leases:
        stop(state, slot, slot.retire or RetireReason.OPERATOR, hard=False)


def shun(state: PoolState, slot: SlotRecord) -> None:
    """Open no new seats here; close the seats without a lease, those still opening included."""
    slot.shunned = True
    for seat in list(slot.seats.values()):
        if seat.state in {SeatState.OPENING, SeatState.PARKED}:
            close_seat(state, seat)


def stop(state: PoolState, slot: SlotRecord, cause: RetireReason, *, hard: bool, text: str = "") -> None:
    """Any state -> CLOSING: the leases are lost, the seats removed, and the process is to be ended."""
    _lose(state, slot, cause, text)
    state.enter(slot, SlotState.CLOSING)
    state.alarm(state.now + state.limits.stop_timeout)
    state.emit(StopSlot(slot.id, hard, cause))


def lost(state: PoolState, slot: SlotRecord, text: str) -> None:
    """The process died by itself: end what is left of its process tree."""
    state.note(Counted.SLOT_DIED, slot, RetireReason.DIED, text)
    stop(state, slot, RetireReason.DIED, hard=True, text=text)


def _lose(state: PoolState, slot: SlotRecord, cause: RetireReason, text: str) -> None:
    leases = tuple(slot.leases)
    for seat in list(slot.leases.values()):
        state.end_lease(seat)
    for seat in list(slot.seats.values()):
        state.remove_seat(seat)
    if leases:
        state.emit(SeatsLost(slot.id, leases, cause, text))


def stop_again(state: PoolState, slot: SlotRecord) -> None:
    """The process tree outlived its stop: stop it again, hard."""
    slot.since = state.now
    state.alarm(state.now + state.limits.stop_timeout)
    state.note(Counted.STOP_OVERDUE, slot, slot.retire)
    state.emit(StopSlot(slot.id, hard=True, cause=slot.retire or RetireReason.OPERATOR))
