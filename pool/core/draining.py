"""The end of a process. Rules: a drain waits for leases only, never for seats nobody has; it asks every lease
to move, ends when the last one has gone, and is cut by its deadline; a stop that is not answered is said
again, harder. A lost lease is told once, in the same step in which it leaves the books.
"""

from ostler.pool.core.actions import MoveRequested, SeatsLost, StopSlot
from ostler.pool.core.opens import close_seat
from ostler.pool.core.state import PoolState, SlotRecord
from ostler.pool.core.values import Counted, RetireReason, SeatState, SlotState


def begin_drain(books: PoolState, slot: SlotRecord, cause: RetireReason) -> None:
    """READY -> DRAINING: nothing new comes here, and what is here moves at its turn boundary."""
    slot.retire = slot.retire or cause
    shun(books, slot)
    books.enter(slot, SlotState.DRAINING)
    books.alarm(books.now + books.limits.drain_timeout)
    for lease in slot.leases.values():
        books.emit(MoveRequested(lease.id, slot.id, slot.retire))
    finish_drain(books, slot)


def finish_drain(books: PoolState, slot: SlotRecord) -> None:
    """Stop a draining process that nobody has any more."""
    if slot.state is SlotState.DRAINING and not slot.leases:
        stop(books, slot, slot.retire or RetireReason.OPERATOR, hard=False)


def shun(books: PoolState, slot: SlotRecord) -> None:
    """No new seats here: those that nobody has are closed, also those still opening."""
    slot.shunned = True
    for seat in list(slot.seats.values()):
        if seat.state in {SeatState.OPENING, SeatState.PARKED}:
            close_seat(books, seat)


def stop(books: PoolState, slot: SlotRecord, cause: RetireReason, *, hard: bool, text: str = "") -> None:
    """Any state -> CLOSING: the leases are lost, the seats gone, the process is to be ended."""
    _lose(books, slot, cause, text)
    books.enter(slot, SlotState.CLOSING)
    books.alarm(books.now + books.limits.stop_timeout)
    books.emit(StopSlot(slot.id, hard, cause))


def lost(books: PoolState, slot: SlotRecord, text: str) -> None:
    """The process died by itself: what is left of its tree is ended."""
    books.note(Counted.SLOT_DIED, slot, RetireReason.DIED, text)
    stop(books, slot, RetireReason.DIED, hard=True, text=text)


def _lose(books: PoolState, slot: SlotRecord, cause: RetireReason, text: str) -> None:
    leases = tuple(slot.leases)
    for lease in list(slot.leases.values()):
        books.end_lease(lease)
    for seat in list(slot.seats.values()):
        books.remove_seat(seat)
    if leases:
        books.emit(SeatsLost(slot.id, leases, cause, text))


def stop_again(books: PoolState, slot: SlotRecord) -> None:
    """The process tree outlived its stop: again, and hard."""
    slot.since = books.now
    books.alarm(books.now + books.limits.stop_timeout)
    books.note(Counted.STOP_OVERDUE, slot, slot.retire)
    books.emit(StopSlot(slot.id, hard=True, cause=slot.retire or RetireReason.OPERATOR))
