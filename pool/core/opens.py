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


def open_seats(state: PoolState, key_state: KeyState) -> None:
    """Open what waiting claims need and then what the reserve lacks, as far as there is room."""
    while (queue := _neediest(state, key_state)) is not None:
        slot = _roomy(state, key_state, fresh_only=False)
        if slot is None:
            break
        _open(state, key_state, slot, queue)
    if _roomy(state, key_state, fresh_only=True) is not None:
        for queue in key_state.queues.values():
            _open_ahead(state, key_state, queue)


def _neediest(state: PoolState, key_state: KeyState) -> SeatQueue | None:
    short = [queue for queue in key_state.queues.values() if queue.claims.count > queue.opening]
    if len(short) <= 1:
        return short[0] if short else None
    return min(short, key=lambda queue: (queue.opening, state.turns.of(queue.claims.head())))


def _roomy(state: PoolState, key_state: KeyState, *, fresh_only: bool, ahead: bool = False) -> SlotRecord | None:
    """The process to open a seat on: the oldest with room that is not to be replaced, so that other processes can
    empty.
    """
    limit = key_state.spec.traits.parallel_opens
    second = None
    for slot in key_state.slots.values():
        if not slot.room:
            continue
        crowded = state.open_groups.get(open_group(slot), 0) >= limit
        if crowded or (ahead and open_is_deferred(state, key_state, slot)):
            state.mark_unserved(key_state)
        elif slot.retire is None:
            return slot
        elif second is None and not fresh_only:
            second = slot
    return second


def _open(state: PoolState, key_state: KeyState, slot: SlotRecord, queue: SeatQueue) -> None:
    seat = state.add_seat(key_state, slot, queue)
    state.alarm(state.now + min(state.limits.open_timeout, state.limits.slow_open_after))
    state.emit(OpenSeat(seat.id, slot.id, key_state.key, queue.tools, queue.resume))


def _open_ahead(state: PoolState, key_state: KeyState, queue: SeatQueue) -> None:
    missing = deficit(state, key_state, queue)
    if missing <= 0:
        queue.short_since = None
        return
    if queue.short_since is None:
        queue.short_since = state.now
    # Counted from the first missing seat, not from the latest: steady claims must not put off the refill without end.
    due = max(queue.open_after, queue.short_since + key_state.spec.traits.refill_pause)
    if state.now < due:
        state.alarm(due)
        return
    for _ in range(missing):
        slot = _roomy(state, key_state, fresh_only=True, ahead=True)
        if slot is None or is_tight(state, (len(state.opening) + 1) * key_state.spec.traits.seat_bytes):
            return
        _open(state, key_state, slot, queue)


def close_seat(state: PoolState, seat: SeatRecord) -> None:
    """End a seat on a living process. If the agent cannot close sessions, the seat is leaked from this moment."""
    state.begin_close(seat)
    state.alarm(state.now + state.limits.close_timeout)
    state.emit(CloseSeat(seat.id, seat.slot.id))
    if not seat.slot.spec.traits.can_close:
        leak_seat(state, seat)


def leak_seat(state: PoolState, seat: SeatRecord) -> None:
    """The session lives on inside the agent, out of reach of the pool: the seat is removed, its memory stays in use."""
    seat.slot.leaked += 1
    seat.slot.unjudged = True  # set here because seats leak in several places, and one of them would miss it
    state.remove_seat(seat)
    state.note(Counted.SEAT_LEAKED, seat.slot)
