"""What went wrong outside the core, turned into outcomes.

Rules:
- A failed start leaves no slot behind, and its error reaches every claim that waited for it, even if the agent is not
  to blame.
- A process that dies before it proved that it works counts as a failed start. Otherwise a floor would restart a
  crashing agent without end.
- A failed open costs one claim at most and never the process, until opens fail several times in a row.
"""

from ostler.pool.core.actions import MoveRequested
from ostler.pool.core.breaker import Breaker
from ostler.pool.core.draining import lost, stop
from ostler.pool.core.opens import close_seat
from ostler.pool.core.outcomes import refuse
from ostler.pool.core.recycling import retire
from ostler.pool.core.starts import all_waiting, refuse_unserved
from ostler.pool.core.state import PoolState, SeatQueue, SeatRecord, SlotRecord
from ostler.pool.core.values import Counted, RefusalKind, RetireReason, SeatState


def start_failed(books: PoolState, slot: SlotRecord, phase: str, text: str, jitter: float, *, retryable: bool) -> None:
    books.note(Counted.START_FAILED, slot, RetireReason.START_FAILED, f"{phase}: {text}")
    _record(books, slot, phase, text, jitter, retryable=retryable)
    _fruitless(books, slot, phase, text)


def start_fell_short(books: PoolState, slot: SlotRecord, phase: str, text: str, jitter: float) -> None:
    """A start failed because this machine had no room for it."""
    books.note(Counted.START_FAILED, slot, RetireReason.START_FAILED, f"{phase}: {text}")
    _breaker(books, slot).fall_short(books.now, books.limits, jitter, phase, text)
    waited_for = slot.stable is not None and slot.stable.waiting > 0
    _fruitless(books, slot, phase, text)
    if waited_for:
        _refuse_alike(books, slot.spec.group)


def _fruitless(books: PoolState, slot: SlotRecord, phase: str, text: str) -> None:
    stop(books, slot, RetireReason.START_FAILED, hard=True)
    if slot.stable is not None:
        refuse_unserved(books, slot.stable, phase, text)


def _refuse_alike(books: PoolState, group: tuple[str, str]) -> None:
    """Refuse the waiting claims of keys without a process that start the same way: they would find no room either.

    One start is tried at a time, so each of them would wait for all before it. A failed start that no claim waited for
    refuses no claim: the next start is for the claims that wait.
    """
    retry_after = books.breakers[group].claims_after - books.now
    for stable in books.stables.values():
        if stable.spec.group == group and not (books.paused or stable.paused or stable.slots):
            for waiting in all_waiting(stable):
                refuse(books, waiting, RefusalKind.BREAKER_OPEN, retry_after=retry_after)


def slot_died(books: PoolState, slot: SlotRecord, text: str) -> None:
    if not slot.proven and slot.ready_step >= 0:
        books.note(Counted.START_FAILED, slot, RetireReason.DIED, f"early exit: {text}")
        _record(books, slot, "early exit", text, slot.jitter, retryable=True)
    lost(books, slot, text)


def _record(books: PoolState, slot: SlotRecord, phase: str, text: str, jitter: float, *, retryable: bool) -> None:
    breaker = _breaker(books, slot)
    breaker.fail(books.now, books.limits, jitter, phase, text, retryable=retryable)
    if breaker.failures == books.limits.breaker_after:
        books.note(Counted.BREAKER_OPENED, slot, RetireReason.START_FAILED, text)


def _breaker(books: PoolState, slot: SlotRecord) -> Breaker:
    return books.breakers.setdefault(slot.spec.group, Breaker())


def prove(books: PoolState, slot: SlotRecord) -> None:
    """The process works: forget its fingerprint's failures, and a shortage from before it was ready."""
    slot.proven = True
    breaker = books.breakers.get(slot.spec.group)
    if breaker is None:
        return
    books.capacity_changed = True
    if breaker.failures >= books.limits.breaker_after:
        books.note(Counted.BREAKER_CLOSED, slot)
    breaker.forgive(slot.ready_at)
    if breaker.is_over(books.now, books.limits):
        del books.breakers[slot.spec.group]


def open_failed(books: PoolState, seat: SeatRecord, text: str) -> None:
    line, slot = seat.line, seat.slot
    books.note(Counted.OPEN_FAILED, slot, RetireReason.OPENS_FAIL, text)
    close_seat(books, seat)
    _pause_opens(books, line)
    if line.ring.count > line.opening and (waiting := line.ring.head()) is not None:
        refuse(books, waiting, RefusalKind.OPEN_FAILED, phase="open", text=text)
    if line.failures >= books.limits.open_failures:
        retire(books, slot, RetireReason.OPENS_FAIL)


def broken(books: PoolState, seat: SeatRecord) -> None:
    """The seat has lost its tools. A parked seat is closed, and the next one is opened only after a pause, so that
    opening and breaking do not alternate without end. The holder of a leased seat is asked to take another one.
    """
    books.note(Counted.SEAT_BROKEN, seat.slot)
    if seat.state is SeatState.PARKED:
        _pause_opens(books, seat.line)
        close_seat(books, seat)
    elif seat.lease is not None:
        books.emit(MoveRequested(seat.lease, seat.slot.id, RetireReason.TOOLS_LOST))


def _pause_opens(books: PoolState, line: SeatQueue) -> None:
    line.failures += 1
    pause = books.limits.backoff_base * 2.0 ** min(line.failures, 30)
    line.open_after = books.now + min(books.limits.backoff_cap, pause)
