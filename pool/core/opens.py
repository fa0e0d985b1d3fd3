"""Opening seats. Rules: those who wait come first, the line whose head's owner waited longest since its last
turn before the others; an opening seat is promised to its line, not to one claim, so whoever is next gets
what is ready first. Opens that a provider cannot do in parallel are counted per HOME group, each until it is known
that its agent has answered: the end of a replay, of which the agent has no more work, keeps no other seat waiting.
"""

from ostler.pool.core.actions import CloseSeat, OpenSeat
from ostler.pool.core.deferral import open_is_deferred
from ostler.pool.core.reserve import deficit, is_tight
from ostler.pool.core.state import KeyState, PoolState, SeatQueue, SeatRecord, SlotRecord, open_group
from ostler.pool.core.values import Counted


def open_seats(books: PoolState, stable: KeyState) -> None:
    """Open what waiters need and then what the reserve lacks, as far as there is room."""
    while (line := _neediest(books, stable)) is not None:
        slot = _roomy(books, stable, fresh_only=False)
        if slot is None:
            break
        _open(books, stable, slot, line)
    if _roomy(books, stable, fresh_only=True) is not None:
        for line in stable.queues.values():
            _open_ahead(books, stable, line)


def _neediest(books: PoolState, stable: KeyState) -> SeatQueue | None:
    short = [line for line in stable.queues.values() if line.ring.count > line.opening]
    if len(short) <= 1:
        return short[0] if short else None
    return min(short, key=lambda line: (line.opening, books.turns.of(line.ring.head())))


def _roomy(books: PoolState, stable: KeyState, *, fresh_only: bool, ahead: bool = False) -> SlotRecord | None:
    """The process to open a seat on: the oldest with room that is not to be replaced, so that others can
    empty.
    """
    limit = stable.spec.traits.parallel_opens
    second = None
    for slot in stable.slots.values():
        if not slot.room:
            continue
        crowded = books.open_groups.get(open_group(slot), 0) >= limit
        if crowded or (ahead and open_is_deferred(books, stable, slot)):
            books.unserved_keys[stable.key] = stable
        elif slot.retire is None:
            return slot
        elif second is None and not fresh_only:
            second = slot
    return second


def _open(books: PoolState, stable: KeyState, slot: SlotRecord, line: SeatQueue) -> None:
    seat = books.add_seat(stable, slot, line)
    books.alarm(books.now + min(books.limits.open_timeout, books.limits.slow_open_after))
    books.emit(OpenSeat(seat.id, slot.id, stable.key, line.tools))


def _open_ahead(books: PoolState, stable: KeyState, line: SeatQueue) -> None:
    missing = deficit(books, stable, line)
    if missing <= 0:
        line.short_since = None
        return
    if line.short_since is None:
        line.short_since = books.now
    # Counted from the first seat that went, not from the last: steady claims must not put the refill off for ever.
    due = max(line.open_after, line.short_since + stable.spec.traits.refill_pause)
    if books.now < due:
        books.alarm(due)
        return
    for _ in range(missing):
        slot = _roomy(books, stable, fresh_only=True, ahead=True)
        if slot is None or is_tight(books, (len(books.opening) + 1) * stable.spec.traits.seat_bytes):
            return
        _open(books, stable, slot, line)


def close_seat(books: PoolState, seat: SeatRecord) -> None:
    """End a seat on a living process; where the agent cannot close, it is a leak from this moment."""
    books.begin_close(seat)
    books.alarm(books.now + books.limits.close_timeout)
    books.emit(CloseSeat(seat.id, seat.slot.id))
    if not seat.slot.spec.traits.can_close:
        leak_seat(books, seat)


def leak_seat(books: PoolState, seat: SeatRecord) -> None:
    """The session lives on inside the agent, out of our reach: the seat is gone, its weight stays."""
    seat.slot.leaked += 1
    seat.slot.unjudged = True  # here, because seats leak on many ways: one of them would forget to ask
    books.remove_seat(seat)
    books.note(Counted.SEAT_LEAKED, seat.slot)
