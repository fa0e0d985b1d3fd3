"""Opening seats.

Rules:
- Waiting claims come first: the seat queue whose head's owner has waited longest since its last turn is served before
  the others.
- An opening seat is promised to its seat queue, not to one claim, so the first claim in order gets what is ready first.
- Opens that a provider cannot do in parallel are counted per HOME group, each until its agent has answered. The replay
  that follows is no work for the agent, so it keeps no other open waiting.
"""

from ostler.pool.core.actions import CloseSeat, OpenSeat
from ostler.pool.core.deferral import open_is_deferred
from ostler.pool.core.reserve import deficit, is_tight
from ostler.pool.core.state import KeyState, PoolState, SeatQueue, SeatRecord, SlotRecord, open_group
from ostler.pool.core.values import Counted


def open_seats(books: PoolState, stable: KeyState) -> None:
    """Open what waiting claims need and then what the reserve lacks, as far as there is room."""
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
    """The process to open a seat on: the oldest with room that is not to be replaced, so that other processes can
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
    # Counted from the first missing seat, not from the latest: steady claims must not put off the refill without end.
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
    """End a seat on a living process. If the agent cannot close sessions, the seat is leaked from this moment."""
    books.begin_close(seat)
    books.alarm(books.now + books.limits.close_timeout)
    books.emit(CloseSeat(seat.id, seat.slot.id))
    if not seat.slot.spec.traits.can_close:
        leak_seat(books, seat)


def leak_seat(books: PoolState, seat: SeatRecord) -> None:
    """The session lives on inside the agent, out of reach of the pool: the seat is removed, its memory stays in use."""
    seat.slot.leaked += 1
    seat.slot.unjudged = True  # set here because seats leak in several places, and one of them would miss it
    books.remove_seat(seat)
    books.note(Counted.SEAT_LEAKED, seat.slot)
