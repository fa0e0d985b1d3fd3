"""The operator's orders, the clock's Tick, and the shutdown. Each function returns the key to settle, if there is
one.
"""

from ostler.pool.core import events
from ostler.pool.core.actions import StopSlot
from ostler.pool.core.draining import begin_drain, stop
from ostler.pool.core.outcomes import refuse
from ostler.pool.core.recycling import retire
from ostler.pool.core.starts import earn
from ostler.pool.core.state import KeyState, PoolState
from ostler.pool.core.sweep import sweep
from ostler.pool.core.values import Key, RefusalKind, RetireReason, SlotState


def pause(event: events.Pause, state: PoolState) -> KeyState | None:
    return _set_paused(state, event.key, to=True)


def resume(event: events.Resume, state: PoolState) -> KeyState | None:
    return _set_paused(state, event.key, to=False)


def _set_paused(state: PoolState, key: Key | None, *, to: bool) -> KeyState | None:
    if key is None:
        state.paused = to
        state.mark_all_unserved()
        return None
    key_state = state.find_key(key)
    key_state.paused = to
    state.capacity_changed = True
    state.recount_spares = True
    return key_state


def drain_key(event: events.DrainKey, state: PoolState) -> KeyState | None:
    key_state = state.find_key(event.key)
    for slot in list(key_state.slots.values()):
        if slot.state is SlotState.READY:
            begin_drain(state, slot, RetireReason.OPERATOR)
        elif slot.state is SlotState.STARTING:
            stop(state, slot, RetireReason.OPERATOR, hard=False)
    return key_state


def cool(event: events.StopWarming, state: PoolState) -> KeyState | None:
    """Drain the key and keep nothing warm: after a plain drain the reserve would start a fresh process at once."""
    key_state = state.find_key(event.key)
    key_state.cool = True
    return drain_key(events.DrainKey(event.key), state)


def limits_changed(event: events.LimitsChanged, state: PoolState) -> KeyState | None:
    """Check the new limits before recording anything. What they make due is done on the Tick that this asks for at
    once.
    """
    for key_state in state.keys.values():
        event.limits.check(key_state.spec)
    earn(state)
    if event.limits.memory_ceiling != state.limits.memory_ceiling:
        for key_state in state.keys.values():
            key_state.ceiling_off = False
    state.limits = event.limits
    for key_state in state.keys.values():
        for queue in key_state.queues.values():
            queue.arrivals.follow(state.limits.reserve)
    state.alarm(state.now)
    state.mark_all_unserved()
    return None


def recycle(event: events.Recycle, state: PoolState) -> KeyState | None:
    slot = state.find_slot(event.slot, SlotState.READY)
    retire(state, slot, RetireReason.OPERATOR)
    return slot.key_state


def kill(event: events.Kill, state: PoolState) -> KeyState | None:
    slot = state.find_slot(event.slot, SlotState.STARTING, SlotState.READY, SlotState.DRAINING)
    stop(state, slot, RetireReason.OPERATOR, hard=True, text="killed by the operator")
    return slot.key_state


def reconnect(event: events.Reconnect, state: PoolState) -> KeyState | None:
    key_state = state.find_key(event.key)
    state.remove_breaker(key_state.spec.group)
    state.capacity_changed = True
    return key_state


def tick(event: events.Tick, state: PoolState) -> KeyState | None:  # noqa: ARG001  # one signature for all events
    state.wake_at = state.announced = float("inf")
    if state.keys or state.slots:
        state.alarm(state.now + state.limits.sweep_every)
    sweep(state)
    state.recount_spares = True
    state.mark_all_unserved()
    return None


def shutdown(event: events.Shutdown, state: PoolState) -> KeyState | None:  # noqa: ARG001  # one signature for all events
    """Refuse every waiting claim and stop every process. A second Shutdown repeats the stop as a hard one."""
    again, state.closed = state.closed, True
    for waiting in list(state.claims.values()):
        refuse(state, waiting, RefusalKind.CLOSED)
    for slot in list(state.slots.values()):
        if slot.state is not SlotState.CLOSING:
            stop(state, slot, RetireReason.SHUTDOWN, hard=False, text="the pool shuts down")
        elif again:
            state.emit(StopSlot(slot.id, hard=True, cause=RetireReason.SHUTDOWN))
    state.forget_keys()
    return None
