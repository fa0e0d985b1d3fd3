"""Events from outside: what processes and seats did. Each function records its event and returns the key to settle."""

from ostler.pool.core import events
from ostler.pool.core.budget import shed
from ostler.pool.core.failures import broken, open_failed, prove, slot_died, start_failed, start_fell_short
from ostler.pool.core.opens import leak_seat
from ostler.pool.core.recycling import judge_memory, judge_seats, judge_silence, spend
from ostler.pool.core.state import KeyState, PoolState, SlotRecord, StaleEvent
from ostler.pool.core.values import SeatState, SlotState

LIVE = (SlotState.READY, SlotState.DRAINING)


def slot_started(event: events.SlotStarted, books: PoolState) -> KeyState | None:
    slot = books.find_slot(event.slot, SlotState.STARTING)
    took = books.now - slot.since
    books.enter(slot, SlotState.READY)
    slot.jitter, slot.ready_at, slot.ready_step = event.jitter, books.now, books.step
    slot.used_at = slot.probed_at = books.now
    books.settled_groups.add(slot.spec.traits.open_group)
    books.recount_spares = True
    books.alarm(books.now + books.limits.sweep_every)
    if slot.stable is not None:
        before = slot.stable.start_seconds or took
        slot.stable.start_seconds = before + 0.3 * (took - before)
        slot.stable.came_up = True
    return slot.stable


def slot_start_failed(event: events.SlotStartFailed, books: PoolState) -> KeyState | None:
    slot = books.find_slot(event.slot, SlotState.STARTING)
    if event.shortage:
        start_fell_short(books, slot, event.phase, event.text, event.jitter)
    else:
        start_failed(books, slot, event.phase, event.text, event.jitter, retryable=event.retryable)
    return slot.stable


def slot_has_died(event: events.SlotDied, books: PoolState) -> KeyState | None:
    slot = books.find_slot(event.slot, SlotState.STARTING, *LIVE)
    _death(books, slot, event.text)
    return slot.stable


def slot_spent(event: events.SlotSpent, books: PoolState) -> KeyState | None:
    slot = books.find_slot(event.slot, *LIVE)
    spend(books, slot)
    return slot.stable


def slot_gone(event: events.SlotGone, books: PoolState) -> KeyState | None:
    """The process tree is reaped. For a process whose death was not reported before, this event reports it too."""
    slot = books.find_slot(event.slot, *SlotState)
    if slot.state is not SlotState.CLOSING:
        _death(books, slot, "gone without a word")
    books.remove_slot(slot)
    return slot.stable


def _death(books: PoolState, slot: SlotRecord, text: str) -> None:
    if slot.state is SlotState.STARTING:
        start_failed(books, slot, "start", text, 0.5, retryable=True)
    else:
        slot_died(books, slot, text)


def seat_made(event: events.SeatMade, books: PoolState) -> KeyState | None:
    seat = books.find_seat(event.seat, SeatState.OPENING)
    if not seat.asked:
        raise StaleEvent
    books.made(seat)
    return seat.stable


def seat_opened(event: events.SeatOpened, books: PoolState) -> KeyState | None:
    seat = books.find_seat(event.seat, SeatState.OPENING)
    seat.stable.open_seconds += 0.3 * (books.now - seat.since - seat.stable.open_seconds)
    seat.line.failures, seat.line.open_after = 0, 0.0
    prove(books, seat.slot)
    books.park(seat)
    return seat.stable


def seat_open_failed(event: events.SeatOpenFailed, books: PoolState) -> KeyState | None:
    seat = books.find_seat(event.seat, SeatState.OPENING)
    open_failed(books, seat, event.text)
    judge_seats(books, seat.slot)
    return seat.stable


def seat_closed(event: events.SeatClosed, books: PoolState) -> KeyState | None:
    seat = books.find_seat(event.seat, SeatState.CLOSING)
    if event.clean:
        books.remove_seat(seat)
    else:
        leak_seat(books, seat)
    judge_seats(books, seat.slot)
    return seat.stable


def seat_broken(event: events.SeatBroken, books: PoolState) -> KeyState | None:
    seat = books.find_seat(event.seat, SeatState.PARKED, SeatState.LEASED)
    broken(books, seat)
    judge_seats(books, seat.slot)
    return seat.stable


def memory_sampled(event: events.MemorySampled, books: PoolState) -> KeyState | None:
    slot = books.find_slot(event.slot, *SlotState)
    if slot.state is SlotState.STARTING:
        books.charge(slot, max(slot.charge, event.size))
        return None
    books.capacity_changed = books.capacity_changed or event.size < slot.charge
    books.charge(slot, event.size)
    if slot.stable is not None and slot.state in LIVE:
        judge_memory(books, slot, slot.stable, event.own, event.sessions)
    shed(books)
    return slot.stable


def probe_answered(event: events.ProbeAnswered, books: PoolState) -> KeyState | None:
    slot = books.find_slot(event.slot, *LIVE)
    slot.missed = 0
    prove(books, slot)
    return slot.stable


def probe_missed(event: events.ProbeMissed, books: PoolState) -> KeyState | None:
    slot = books.find_slot(event.slot, SlotState.READY)
    slot.missed += 1
    judge_silence(books, slot)
    return slot.stable
