"""Events from the clients of the pool: keys, claims, leases, seats to keep warm.

Each function records its event and returns the key to settle.
"""

from typing import Final

from ostler.pool.core import events
from ostler.pool.core.actions import Refuse
from ostler.pool.core.census import census
from ostler.pool.core.draining import finish_drain, shun, stop
from ostler.pool.core.opens import close_seat
from ostler.pool.core.outcomes import refuse, why_missed
from ostler.pool.core.queueing import Waiting
from ostler.pool.core.recycling import judge_seats, retire
from ostler.pool.core.reserve import refill_seconds
from ostler.pool.core.settle import settle_fairly
from ostler.pool.core.state import KeyState, PoolState, SeatQueue, StaleEvent
from ostler.pool.core.values import KeySpec, LeaseId, QueueId, RefusalKind, ResumeToken, RetireReason, SlotState

MAX_TOOL_SETS: Final = 64
"""Tool sets remembered per key. Every decision for the key looks at each of them, on the event loop, and a client may
send another tool set with every request. A gateway's own tool sets are a handful. A tool set with waiting claims,
opening seats or a floor is never forgotten, so the number may exceed this limit while that many are busy.
"""


def key_registered(event: events.KeyRegistered, state: PoolState) -> KeyState | None:
    if state.closed:
        raise StaleEvent
    state.limits.check(event.spec)
    state.recount_spares = True
    key_state = state.keys.get(event.key)
    if key_state is None:
        key_state = state.add_key(event.key, event.spec)
    elif key_state.spec != event.spec:
        _respec(state, key_state, event.spec)
    return key_state


def _respec(state: PoolState, key_state: KeyState, spec: KeySpec) -> None:
    """Follow another spec. Another fingerprint is another generation: the old processes get no new seats."""
    if key_state.spec.group != spec.group:
        key_state.start_bytes, key_state.ceiling_off = 0, False
        key_state.memory_retired_at = key_state.slow_retired_at = None
    key_state.spec = spec
    for slot in list(key_state.slots.values()):
        if slot.spec.group == spec.group:
            slot.spec = spec
        elif slot.state is SlotState.STARTING:
            stop(state, slot, RetireReason.FINGERPRINT, hard=True)
        elif slot.state is SlotState.READY:
            retire(state, slot, RetireReason.FINGERPRINT)
            shun(state, slot)


def claim(event: events.Claim, state: PoolState) -> KeyState | None:
    if event.claim in state.claims or event.claim in state.granted:
        raise StaleEvent
    key_state = state.keys.get(event.key)
    if state.closed or key_state is None:
        kind = RefusalKind.CLOSED if state.closed else RefusalKind.UNKNOWN_KEY
        state.emit(Refuse(event.claim, kind, 0.0, census(state)))
        return None
    key_state.cool = False
    waiting = _enqueue(state, key_state, event)
    settle_fairly(state, key_state)
    if event.claim in state.claims and len(state.claims) > state.limits.max_queue:
        refuse(state, waiting, RefusalKind.SATURATED, text=f"{state.limits.max_queue} claims wait already")
    return None


def _enqueue(state: PoolState, key_state: KeyState, event: events.Claim) -> Waiting:
    queue = queue_of(state, key_state, (event.tools, None if event.resume is None else event.claim), event.resume)
    waiting = Waiting(
        event.claim, event.key, queue.id, event.owner, event.deadline, event.parent, state.now, state.step
    )
    waiting.miss = why_missed(state, key_state, queue)
    if event.learn and event.resume is None:
        queue.arrivals.record(state.now, refill_seconds(key_state))
    state.enqueue(waiting, queue)
    return waiting


def queue_of(state: PoolState, key_state: KeyState, name: QueueId, resume: ResumeToken = None) -> SeatQueue:
    if name not in key_state.queues and len(key_state.queues) >= MAX_TOOL_SETS:
        _forget_quietest(state, key_state)
    return state.get_or_add_queue(key_state, name, resume)


def _forget_quietest(state: PoolState, key_state: KeyState) -> None:
    """Forget the tool set without arrivals for longest; none that has claims, opening seats or a floor."""
    can_close = key_state.spec.traits.can_close
    quiet = [
        queue
        for queue in key_state.queues.values()
        if not (queue.claims.count or queue.opening or queue.floor) and (can_close or not queue.parked)
    ]
    if quiet:
        queue = min(quiet, key=lambda one: one.arrivals.last)
        for seat in list(queue.parked.values()):
            close_seat(state, seat)
        state.remove_queue(key_state, queue)


def claim_abandoned(event: events.ClaimAbandoned, state: PoolState) -> KeyState | None:
    """Give back what the caller no longer wants: dequeue its claim, or release a grant that it never took."""
    waiting = state.claims.get(event.claim)
    if waiting is not None:
        state.dequeue(waiting)
        return state.keys[waiting.key]
    return _release(state, state.granted.get(event.claim))


def lease_released(event: events.LeaseReleased, state: PoolState) -> KeyState | None:
    return _release(state, event.lease)


def _release(state: PoolState, lease: LeaseId | None) -> KeyState | None:
    seat = state.find_lease(lease)
    slot = seat.slot
    state.hold_seconds += 0.2 * (state.now - seat.since - state.hold_seconds)
    state.end_lease(seat)
    close_seat(state, seat)
    finish_drain(state, slot)
    judge_seats(state, slot)
    return slot.key_state


def answered(event: events.Answered, state: PoolState) -> KeyState | None:
    slot = state.find_lease(event.lease).slot
    since = state.first_answer_pending.get(slot.id)
    if since is not None and slot.key_state is not None:
        key_state = slot.key_state
        key_state.answer_seconds += 0.3 * (state.now - since - key_state.answer_seconds)
    state.mark_answered(slot)
    return None


def warm(event: events.KeepWarm, state: PoolState) -> KeyState | None:
    key_state = state.find_key(event.key)
    key_state.cool = key_state.cool and not event.seats
    queue_of(state, key_state, (event.tools, None)).floor = event.seats
    return key_state
