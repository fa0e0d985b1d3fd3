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


def pause(event: events.Pause, books: PoolState) -> KeyState | None:
    return _set_paused(books, event.key, to=True)


def resume(event: events.Resume, books: PoolState) -> KeyState | None:
    return _set_paused(books, event.key, to=False)


def _set_paused(books: PoolState, key: Key | None, *, to: bool) -> KeyState | None:
    if key is None:
        books.paused = to
        settle_all(books)
        return None
    stable = books.find_stable(key)
    stable.paused = to
    books.capacity_changed = True
    books.recount_spares = True
    return stable


def drain_key(event: events.DrainKey, books: PoolState) -> KeyState | None:
    stable = books.find_stable(event.key)
    for slot in list(stable.slots.values()):
        if slot.state is SlotState.READY:
            begin_drain(books, slot, RetireReason.OPERATOR)
        elif slot.state is SlotState.STARTING:
            stop(books, slot, RetireReason.OPERATOR, hard=False)
    return stable


def cool(event: events.StopWarming, books: PoolState) -> KeyState | None:
    """Drain the key and keep nothing warm: after a plain drain the reserve would start a fresh process at once."""
    stable = books.find_stable(event.key)
    stable.cool = True
    return drain_key(events.DrainKey(event.key), books)


def limits_changed(event: events.LimitsChanged, books: PoolState) -> KeyState | None:
    """Check the new limits before recording anything. What they make due is done on the Tick that this asks for at
    once.
    """
    for stable in books.stables.values():
        event.limits.check(stable.spec)
    earn(books)
    if event.limits.memory_ceiling != books.limits.memory_ceiling:
        for stable in books.stables.values():
            stable.ceiling_off = False
    books.limits = event.limits
    for stable in books.stables.values():
        for line in stable.queues.values():
            line.arrivals.follow(books.limits.reserve)
    books.alarm(books.now)
    settle_all(books)
    return None


def recycle(event: events.Recycle, books: PoolState) -> KeyState | None:
    slot = books.find_slot(event.slot, SlotState.READY)
    retire(books, slot, RetireReason.OPERATOR)
    return slot.stable


def kill(event: events.Kill, books: PoolState) -> KeyState | None:
    slot = books.find_slot(event.slot, SlotState.STARTING, SlotState.READY, SlotState.DRAINING)
    stop(books, slot, RetireReason.OPERATOR, hard=True, text="killed by the operator")
    return slot.stable


def reconnect(event: events.Reconnect, books: PoolState) -> KeyState | None:
    stable = books.find_stable(event.key)
    books.breakers.pop(stable.spec.group, None)
    books.capacity_changed = True
    return stable


def tick(event: events.Tick, books: PoolState) -> KeyState | None:  # noqa: ARG001  # one signature for all events
    books.wake_at = books.announced = float("inf")
    if books.stables or books.slots:
        books.alarm(books.now + books.limits.sweep_every)
    sweep(books)
    books.recount_spares = True
    settle_all(books)
    return None


def settle_all(books: PoolState) -> None:
    books.unserved_keys = dict(books.stables)
    books.capacity_changed = True


def shutdown(event: events.Shutdown, books: PoolState) -> KeyState | None:  # noqa: ARG001  # one signature for all events
    """Refuse every waiting claim and stop every process. A second Shutdown repeats the stop as a hard one."""
    again, books.closed = books.closed, True
    for waiting in list(books.claims.values()):
        refuse(books, waiting, RefusalKind.CLOSED)
    for slot in list(books.slots.values()):
        if slot.state is not SlotState.CLOSING:
            stop(books, slot, RetireReason.SHUTDOWN, hard=False, text="the pool shuts down")
        elif again:
            books.emit(StopSlot(slot.id, hard=True, cause=RetireReason.SHUTDOWN))
    for index in (books.stables, books.breakers, books.unserved_keys):
        index.clear()
    books.recount_spares = False
    return None
