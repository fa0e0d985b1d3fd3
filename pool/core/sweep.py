"""Everything that is due by the clock alone.

Rules:
- Only a Tick sweeps.
- Idle time is counted from the last use, never from birth, and never for a process that starts, has a lease or owes an
  open.
- A record that no longer carries information is dropped, so the state of a pool that has served a million sessions is
  as small as that of a new one.
"""

from ostler.pool.core.actions import ForgetKey, Probe
from ostler.pool.core.budget import shed, shrink
from ostler.pool.core.draining import begin_drain, stop, stop_again
from ostler.pool.core.failures import open_failed, prove, start_failed
from ostler.pool.core.opens import close_seat, leak_seat
from ostler.pool.core.outcomes import refuse
from ostler.pool.core.recycling import judge_age, judge_open, judge_seats
from ostler.pool.core.reserve import processes_wanted, refill_seconds, target
from ostler.pool.core.state import KeyState, PoolState, SeatQueue, SlotRecord
from ostler.pool.core.values import RefusalKind, RetireReason, SeatState, SlotState


def sweep(state: PoolState) -> None:
    _refuse_overdue(state)
    state.stop_listening()
    for seat in list(state.opening.values()):
        _watch_opening(state, seat.slot, state.now - seat.since)
    for seat in [seat for seat in state.opening.values() if _due(state, seat.since, state.limits.open_timeout)]:
        # An earlier failure in this loop may have retired the process and closed this seat already.
        if seat.state is SeatState.OPENING:
            open_failed(state, seat, f"no answer to the open for {state.limits.open_timeout:g} s")
    for seat in [seat for seat in state.closing.values() if _due(state, seat.since, state.limits.close_timeout)]:
        leak_seat(state, seat)
        judge_seats(state, seat.slot)
    for slot in state.slots.values():
        # Before any failure found by this sweep: a failed start neither disproves nor undoes a process that works.
        _prove_lasting(state, slot)
    for slot in list(state.slots.values()):
        _BY_STATE[slot.state](state, slot)
    shed(state)
    shrink(state)
    for key_state in list(state.keys.values()):
        _tidy(state, key_state)
    _forget_surplus(state)
    _drop_breakers(state)


def _due(state: PoolState, since: float, limit: float) -> bool:
    """Whether the limit has passed; if not, ask for a Tick when it does."""
    if state.now - since >= limit:
        return True
    state.alarm(since + limit)
    return False


def _refuse_overdue(state: PoolState) -> None:
    for waiting in list(state.claims.values()):
        if state.now >= waiting.deadline:
            held = state.paused or state.keys[waiting.key].paused
            refuse(state, waiting, RefusalKind.PAUSED if held else RefusalKind.SATURATED)
        else:
            state.alarm(waiting.deadline)


def _watch_opening(state: PoolState, slot: SlotRecord, open_for: float) -> None:
    if open_for >= state.limits.slow_open_after:
        judge_open(state, slot)
    else:
        state.alarm(state.now + state.limits.slow_open_after - open_for)


def _sweep_starting(state: PoolState, slot: SlotRecord) -> None:
    if _due(state, slot.since, state.limits.start_timeout):
        start_failed(state, slot, "timeout", f"not ready after {state.limits.start_timeout:g} s", 0.5, retryable=True)


def _prove_lasting(state: PoolState, slot: SlotRecord) -> None:
    lasting = max(10.0, slot.spec.traits.start_seconds)
    if slot.state is SlotState.READY and not slot.proven and state.now - slot.ready_at > lasting:
        prove(state, slot)


def _sweep_ready(state: PoolState, slot: SlotRecord) -> None:
    every = state.limits.probe_every
    if every is not None and _due(state, slot.probed_at, every):
        slot.probed_at = state.now
        state.alarm(state.now + every)
        state.emit(Probe(slot.id))
    if slot.key_state is not None:
        _drain_idle(state, slot, slot.key_state)
    elif not _spare_is_wanted(state, slot):
        begin_drain(state, slot, RetireReason.SURPLUS)
    judge_age(state, slot)


def _drain_idle(state: PoolState, slot: SlotRecord, key_state: KeyState) -> None:
    if not slot.idle or key_state.waiting or slot.retire is not None:
        return
    if not _due(state, slot.used_at, state.limits.idle_after):
        return
    up = sum(one.state is SlotState.READY and one.retire is None for one in key_state.slots.values())
    if up > processes_wanted(state, key_state):
        begin_drain(state, slot, RetireReason.IDLE)


def _spare_is_wanted(state: PoolState, slot: SlotRecord) -> bool:
    asked = [key_state.spares for key_state in state.keys.values() if key_state.spec.group == slot.spec.group]
    there = [one.id for one in state.spares.values() if one.spec.group == slot.spec.group]
    return there.index(slot.id) < max(asked, default=0)


def _sweep_draining(state: PoolState, slot: SlotRecord) -> None:
    if _due(state, slot.since, state.limits.drain_timeout):
        stop(state, slot, RetireReason.DRAIN_DEADLINE, hard=False, text=f"drained for {state.limits.drain_timeout:g} s")


def _sweep_closing(state: PoolState, slot: SlotRecord) -> None:
    if _due(state, slot.since, state.limits.stop_timeout):
        stop_again(state, slot)


_BY_STATE = {
    SlotState.STARTING: _sweep_starting,
    SlotState.READY: _sweep_ready,
    SlotState.DRAINING: _sweep_draining,
    SlotState.CLOSING: _sweep_closing,
}


def _tidy(state: PoolState, key_state: KeyState) -> None:
    for queue in list(key_state.queues.values()):
        _close_surplus(state, key_state, queue)
        if _says_nothing(state, key_state, queue):
            state.remove_queue(key_state, queue)
    if key_state.queues or key_state.slots or key_state.paused:
        key_state.used_at = state.now
    elif state.now - key_state.used_at >= _keep_seconds(state, key_state) and not _stands_for_spares(state, key_state):
        _forget(state, key_state)


def _keep_seconds(state: PoolState, key_state: KeyState) -> float:
    """How long an unused key is remembered; one that never had a ready process, until its backoff is over."""
    limits = state.limits
    return limits.forget_after if key_state.came_up else min(limits.forget_after, 2.0 * limits.backoff_cap)


def _forget_surplus(state: PoolState) -> None:
    """Bound the number of keys that are only remembered, because clients choose models and directories."""
    asleep = [key_state for key_state in state.keys.values() if _is_asleep(key_state)]
    surplus = len(asleep) - state.limits.max_idle_keys
    for key_state in sorted(asleep, key=_last_claim)[: max(0, surplus)]:
        if not _stands_for_spares(state, key_state):
            _forget(state, key_state)


def _is_asleep(key_state: KeyState) -> bool:
    """Whether forgetting the key would lose nothing but what was learned of its arrivals."""
    return not (key_state.slots or key_state.paused) and not any(
        queue.claims.count or queue.parked or queue.opening or queue.floor for queue in key_state.queues.values()
    )


def _last_claim(key_state: KeyState) -> float:
    return max((queue.arrivals.last for queue in key_state.queues.values()), default=key_state.used_at)


def _forget(state: PoolState, key_state: KeyState) -> None:
    state.remove_key(key_state)
    state.emit(ForgetKey(key_state.key))


def _stands_for_spares(state: PoolState, key_state: KeyState) -> bool:
    """Whether the pool would lose its configured spares if this key were forgotten: it is the one used last.

    Every key of the provider asks for the spares. If each key were kept for that, a directory or model named once would
    stay until restart, and each model would keep its spare.
    """
    return key_state.spares > 0 and not any(
        other is not key_state
        and other.spec.provider == key_state.spec.provider
        and other.spares >= key_state.spares
        and other.used_at >= key_state.used_at
        for other in state.keys.values()
    )


def _close_surplus(state: PoolState, key_state: KeyState, queue: SeatQueue) -> None:
    if key_state.spec.traits.can_close:
        surplus = len(queue.parked) - target(state, key_state, queue)
        for seat in list(queue.parked.values())[: max(0, surplus)]:
            close_seat(state, seat)


def _says_nothing(state: PoolState, key_state: KeyState, queue: SeatQueue) -> bool:
    """Whether the seat queue could be dropped and created again without any loss.

    Bursts are worth a long memory. A tool set that came one at a time and no longer recurs is not: a client that sends
    another one with every request would leave a day's worth of them, and every decision looks at each.
    """
    if queue.claims.count or queue.parked or queue.opening or queue.floor:
        return False
    if state.now - queue.arrivals.last >= state.limits.forget_after:
        return True
    return queue.arrivals.peak <= 1.0 and not queue.arrivals.recurring(state.now, refill_seconds(key_state))


def _drop_breakers(state: PoolState) -> None:
    if state.breakers:
        used = {key_state.spec.group for key_state in state.keys.values()}
        over = [
            group for group, one in state.breakers.items() if group not in used or one.is_over(state.now, state.limits)
        ]
        for group in over:
            state.remove_breaker(group)
