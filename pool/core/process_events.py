"""Events from outside: what processes and seats did. Each function records its event and returns the key to settle."""

from ostler.pool.core import events
from ostler.pool.core.budget import shed
from ostler.pool.core.failures import broken, open_failed, prove, slot_died, start_failed, start_fell_short
from ostler.pool.core.opens import leak_seat
from ostler.pool.core.recycling import judge_memory, judge_seats, judge_silence, spend
from ostler.pool.core.state import KeyState, PoolState, SlotRecord, StaleEvent
from ostler.pool.core.values import SeatState, SlotState

LIVE = (SlotState.READY, SlotState.DRAINING)


def slot_started(event: events.SlotStarted, state: PoolState) -> KeyState | None:
    slot = state.find_slot(event.slot, SlotState.STARTING)
    took = state.now - slot.since
    state.enter(slot, SlotState.READY)
    slot.jitter, slot.ready_at, slot.ready_step = event.jitter, state.now, state.step
    slot.used_at = slot.probed_at = state.now
    state.recount_spares = True
    state.alarm(state.now + state.limits.sweep_every)
    if slot.key_state is not None:
        before = slot.key_state.start_seconds or took
        slot.key_state.start_seconds = before + 0.3 * (took - before)
        slot.key_state.came_up = True
    return slot.key_state


def slot_start_failed(event: events.SlotStartFailed, state: PoolState) -> KeyState | None:
    slot = state.find_slot(event.slot, SlotState.STARTING)
    if event.shortage:
        start_fell_short(state, slot, event.phase, event.text, event.jitter)
    else:
        start_failed(state, slot, event.phase, event.text, event.jitter, retryable=event.retryable)
    return slot.key_state


def slot_has_died(event: events.SlotDied, state: PoolState) -> KeyState | None:
    slot = state.find_slot(event.slot, SlotState.STARTING, *LIVE)
    _death(state, slot, event.text)
    return slot.key_state


def slot_spent(event: events.SlotSpent, state: PoolState) -> KeyState | None:
    slot = state.find_slot(event.slot, *LIVE)
    spend(state, slot)
    return slot.key_state


def slot_gone(event: events.SlotGone, state: PoolState) -> KeyState | None:
    """The process tree is reaped. For a process whose death was not reported before, this event reports it too."""
    slot = state.find_slot(event.slot, *SlotState)
    if slot.state is not SlotState.CLOSING:
        _death(state, slot, "gone without a word")
    state.remove_slot(slot)
    return slot.key_state


def _death(state: PoolState, slot: SlotRecord, text: str) -> None:
    if slot.state is SlotState.STARTING:
        start_failed(state, slot, "start", text, 0.5, retryable=True)
    else:
        slot_died(state, slot, text)


def seat_made(event: events.SeatMade, state: PoolState) -> KeyState | None:
    seat = state.find_seat(event.seat, SeatState.OPENING)
    if not seat.asked:
        raise StaleEvent
    state.mark_open_answered(seat)
    return seat.key_state


def seat_opened(event: events.SeatOpened, state: PoolState) -> KeyState | None:
    seat = state.find_seat(event.seat, SeatState.OPENING)
    seat.key_state.open_seconds += 0.3 * (state.now - seat.since - seat.key_state.open_seconds)
    seat.queue.failures, seat.queue.open_after = 0, 0.0
    prove(state, seat.slot)
    state.park(seat)
    return seat.key_state


def seat_open_failed(event: events.SeatOpenFailed, state: PoolState) -> KeyState | None:
    seat = state.find_seat(event.seat, SeatState.OPENING)
    open_failed(state, seat, event.text)
    judge_seats(state, seat.slot)
    return seat.key_state


def seat_closed(event: events.SeatClosed, state: PoolState) -> KeyState | None:
    seat = state.find_seat(event.seat, SeatState.CLOSING)
    if event.clean:
        state.remove_seat(seat)
    else:
        leak_seat(state, seat)
    judge_seats(state, seat.slot)
    return seat.key_state


def seat_broken(event: events.SeatBroken, state: PoolState) -> KeyState | None:
    seat = state.find_seat(event.seat, SeatState.PARKED, SeatState.LEASED)
    broken(state, seat)
    judge_seats(state, seat.slot)
    return seat.key_state


def memory_sampled(event: events.MemorySampled, state: PoolState) -> KeyState | None:
    slot = state.find_slot(event.slot, *SlotState)
    if slot.state is SlotState.STARTING:
        state.charge(slot, max(slot.charge, event.size))
        return None
    state.capacity_changed = state.capacity_changed or event.size < slot.charge
    state.charge(slot, event.size)
    if slot.key_state is not None and slot.state in LIVE:
        judge_memory(state, slot, slot.key_state, event.own, event.sessions)
    shed(state)
    return slot.key_state


def probe_answered(event: events.ProbeAnswered, state: PoolState) -> KeyState | None:
    slot = state.find_slot(event.slot, *LIVE)
    slot.missed = 0
    prove(state, slot)
    return slot.key_state


def probe_missed(event: events.ProbeMissed, state: PoolState) -> KeyState | None:
    slot = state.find_slot(event.slot, SlotState.READY)
    slot.missed += 1
    judge_silence(state, slot)
    return slot.key_state
