"""Events from the clients of the pool: keys, claims, leases, hints.

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
from ostler.pool.core.state import KeyState, LeaseRecord, PoolState, SeatQueue, StaleEvent
from ostler.pool.core.values import KeySpec, RefusalKind, RetireReason, SlotState

LINES: Final = 64
"""Tool sets remembered per key. Every decision for the key looks at each of them, on the event loop, and a client may
send another tool set with every request. A gateway's own tool sets are a handful. A tool set with waiting claims,
opening seats, a floor or a hint is never forgotten, so the number may exceed this limit while that many are busy.
"""


def key_registered(event: events.KeyRegistered, books: PoolState) -> KeyState | None:
    if books.closed:
        raise StaleEvent
    books.limits.check(event.spec)
    books.recount_spares = True
    stable = books.stables.get(event.key)
    if stable is None:
        stable = books.stables[event.key] = KeyState(event.key, event.spec, books.now)
    elif stable.spec != event.spec:
        _respec(books, stable, event.spec)
    return stable


def _respec(books: PoolState, stable: KeyState, spec: KeySpec) -> None:
    """Follow another spec. Another fingerprint is another generation: the old processes get no new seats."""
    if stable.spec.group != spec.group:
        stable.start_bytes, stable.ceiling_off = 0, False
        stable.memory_retired_at = stable.slow_retired_at = None
    stable.spec = spec
    for slot in list(stable.slots.values()):
        if slot.spec.group == spec.group:
            slot.spec = spec
        elif slot.state is SlotState.STARTING:
            stop(books, slot, RetireReason.FINGERPRINT, hard=True)
        elif slot.state is SlotState.READY:
            retire(books, slot, RetireReason.FINGERPRINT)
            shun(books, slot)


def claim(event: events.Claim, books: PoolState) -> KeyState | None:
    if event.claim in books.claims or event.claim in books.granted:
        raise StaleEvent
    stable = books.stables.get(event.key)
    if books.closed or stable is None:
        kind = RefusalKind.CLOSED if books.closed else RefusalKind.UNKNOWN_KEY
        books.emit(Refuse(event.claim, kind, 0.0, census(books)))
        return None
    stable.cool = False
    waiting = _enqueue(books, stable, event)
    settle_fairly(books, stable)
    if event.claim in books.claims and len(books.claims) > books.limits.max_queue:
        refuse(books, waiting, RefusalKind.SATURATED, text=f"{books.limits.max_queue} claims wait already")
    return None


def _enqueue(books: PoolState, stable: KeyState, event: events.Claim) -> Waiting:
    waiting = Waiting(
        event.claim, event.key, event.tools, event.owner, event.deadline, event.parent, books.now, books.step
    )
    if event.tools is None:
        waiting.miss = why_missed(books, stable, waiting)
        books.enqueue(waiting, stable.transports)
    else:
        line = queue_of(books, stable, event.tools)
        waiting.miss = why_missed(books, stable, waiting)
        if event.learn:
            line.arrivals.record(books.now, refill_seconds(stable))
        books.enqueue(waiting, line.ring)
    return waiting


def queue_of(books: PoolState, stable: KeyState, tools: str) -> SeatQueue:
    if tools not in stable.queues and len(stable.queues) >= LINES:
        _forget_quietest(books, stable)
    return books.line_of(stable, tools)


def _forget_quietest(books: PoolState, stable: KeyState) -> None:
    """Forget the tool set without arrivals for longest; none that has claims, opening seats, a floor or a hint."""
    can_close = stable.spec.traits.can_close
    quiet = [
        line
        for line in stable.queues.values()
        if not (line.ring.count or line.opening or line.floor or books.now < line.hint_until)
        and (can_close or not line.parked)
    ]
    if quiet:
        line = min(quiet, key=lambda one: one.arrivals.last)
        for seat in list(line.parked.values()):
            close_seat(books, seat)
        del stable.queues[line.tools]


def claim_abandoned(event: events.ClaimAbandoned, books: PoolState) -> KeyState | None:
    """Give back what the caller no longer wants: dequeue its claim, or release a grant that it never took."""
    waiting = books.claims.get(event.claim)
    if waiting is not None:
        books.dequeue(waiting, books.ring_of(waiting))
        return books.stables[waiting.key]
    return _release(books, books.find_lease(books.granted.get(event.claim)))


def lease_released(event: events.LeaseReleased, books: PoolState) -> KeyState | None:
    lease = books.find_lease(event.lease)
    if lease.generation != event.generation:
        raise StaleEvent
    return _release(books, lease)


def _release(books: PoolState, lease: LeaseRecord) -> KeyState | None:
    slot = lease.slot
    books.hold_seconds += 0.2 * (books.now - lease.since - books.hold_seconds)
    books.end_lease(lease)
    if lease.seat is not None:
        close_seat(books, lease.seat)
    finish_drain(books, slot)
    judge_seats(books, slot)
    return slot.stable


def answered(event: events.Answered, books: PoolState) -> KeyState | None:
    slot = books.find_lease(event.lease).slot
    since = books.first_answer_pending.get(slot.id)
    if since is not None and slot.stable is not None:
        stable = slot.stable
        stable.answer_seconds += 0.3 * (books.now - since - stable.answer_seconds)
    books.mark_answered(slot)
    return None


def hint(event: events.Hint, books: PoolState) -> KeyState | None:
    stable = books.find_stable(event.key)
    stable.cool = False
    queue_of(books, stable, event.tools).hint_until = books.now + books.limits.hint_seconds
    return stable


def warm(event: events.KeepWarm, books: PoolState) -> KeyState | None:
    stable = books.find_stable(event.key)
    stable.cool = stable.cool and not event.seats
    queue_of(books, stable, event.tools).floor = event.seats
    return stable
