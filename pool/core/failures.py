"""What went wrong outside the core, turned into outcomes.

Rules:
- A failed start leaves no slot behind, and its error reaches every claim that waited for it, even if the agent is not
  to blame.
- A process that dies before it proved that it works counts as a failed start. Otherwise a floor would restart a
  crashing agent without end.
- A failed open costs one claim at most and never the process, until opens fail several times in a row.
"""

from ostler.pool.core.actions import MoveRequested
from ostler.pool.core.draining import lost, stop
from ostler.pool.core.opens import close_seat
from ostler.pool.core.outcomes import refuse
from ostler.pool.core.recycling import retire
from ostler.pool.core.starts import all_waiting, refuse_unserved
from ostler.pool.core.state import PoolState, SeatQueue, SeatRecord, SlotRecord
from ostler.pool.core.values import Counted, RefusalKind, RetireReason, SeatState


def start_failed(state: PoolState, slot: SlotRecord, phase: str, text: str, jitter: float, *, retryable: bool) -> None:
    state.note(Counted.START_FAILED, slot, RetireReason.START_FAILED, f"{phase}: {text}")
    _record(state, slot, phase, text, jitter, retryable=retryable)
    _fruitless(state, slot, phase, text)


def start_fell_short(state: PoolState, slot: SlotRecord, phase: str, text: str, jitter: float) -> None:
    """A start failed because this machine had no room for it."""
    state.note(Counted.START_FAILED, slot, RetireReason.START_FAILED, f"{phase}: {text}")
    state.get_or_add_breaker(slot.spec.group).fall_short(state.now, state.limits, jitter, phase, text)
    waited_for = slot.key_state is not None and slot.key_state.waiting > 0
    _fruitless(state, slot, phase, text)
    if waited_for:
        _refuse_alike(state, slot.spec.group)


def _fruitless(state: PoolState, slot: SlotRecord, phase: str, text: str) -> None:
    stop(state, slot, RetireReason.START_FAILED, hard=True)
    if slot.key_state is not None:
        refuse_unserved(state, slot.key_state, phase, text)


def _refuse_alike(state: PoolState, group: tuple[str, str]) -> None:
    """Refuse the waiting claims of keys without a process that start the same way: they would find no room either.

    One start is tried at a time, so each of them would wait for all before it. A failed start that no claim waited for
    refuses no claim: the next start is for the claims that wait.
    """
    retry_after = state.breakers[group].claims_after - state.now
    for key_state in state.keys.values():
        if key_state.spec.group == group and not (state.paused or key_state.paused or key_state.slots):
            for waiting in all_waiting(key_state):
                refuse(state, waiting, RefusalKind.BREAKER_OPEN, retry_after=retry_after)


def slot_died(state: PoolState, slot: SlotRecord, text: str) -> None:
    if not slot.proven and slot.ready_step >= 0:
        state.note(Counted.START_FAILED, slot, RetireReason.DIED, f"early exit: {text}")
        _record(state, slot, "early exit", text, slot.jitter, retryable=True)
    lost(state, slot, text)


def _record(state: PoolState, slot: SlotRecord, phase: str, text: str, jitter: float, *, retryable: bool) -> None:
    breaker = state.get_or_add_breaker(slot.spec.group)
    breaker.fail(state.now, state.limits, jitter, phase, text, retryable=retryable)
    if breaker.failures == state.limits.breaker_after:
        state.note(Counted.BREAKER_OPENED, slot, RetireReason.START_FAILED, text)


def prove(state: PoolState, slot: SlotRecord) -> None:
    """The process works: forget its fingerprint's failures, and a shortage from before it was ready."""
    slot.proven = True
    breaker = state.breakers.get(slot.spec.group)
    if breaker is None:
        return
    state.capacity_changed = True
    if breaker.failures >= state.limits.breaker_after:
        state.note(Counted.BREAKER_CLOSED, slot)
    breaker.forgive(slot.ready_at)
    if breaker.is_over(state.now, state.limits):
        state.remove_breaker(slot.spec.group)


def open_failed(state: PoolState, seat: SeatRecord, text: str) -> None:
    queue, slot = seat.queue, seat.slot
    state.note(Counted.OPEN_FAILED, slot, RetireReason.OPENS_FAIL, text)
    close_seat(state, seat)
    _pause_opens(state, queue)
    if queue.claims.count > queue.opening and (waiting := queue.claims.head()) is not None:
        refuse(state, waiting, RefusalKind.OPEN_FAILED, phase="open", text=text)
    if queue.failures >= state.limits.open_failures:
        retire(state, slot, RetireReason.OPENS_FAIL)


def broken(state: PoolState, seat: SeatRecord) -> None:
    """The seat has lost its tools. A parked seat is closed, and the next one is opened only after a pause, so that
    opening and breaking do not alternate without end. The holder of a leased seat is asked to take another one.
    """
    state.note(Counted.SEAT_BROKEN, seat.slot)
    if seat.state is SeatState.PARKED:
        _pause_opens(state, seat.queue)
        close_seat(state, seat)
    elif seat.lease is not None:
        state.emit(MoveRequested(seat.lease, seat.slot.id, RetireReason.TOOLS_LOST))


def _pause_opens(state: PoolState, queue: SeatQueue) -> None:
    queue.failures += 1
    pause = state.limits.backoff_base * 2.0 ** min(queue.failures, 30)
    queue.open_after = state.now + min(state.limits.backoff_cap, pause)
