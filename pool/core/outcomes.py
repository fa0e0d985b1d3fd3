"""The one outcome of every claim: granted or refused, never both, never neither.

Rules:
- Granting and recording are one step. Only READY processes that are not shunned are granted.
- The warmth on a grant is judged by what happened between claim and grant, by steps and not by the clock. A seat that
  was parked before the claim is a hit; a process that became ready after it makes the claim cold, however warm the pool
  looked.
"""

from ostler.pool.core.actions import Grant, Refuse
from ostler.pool.core.census import census
from ostler.pool.core.queueing import Waiting
from ostler.pool.core.state import KeyState, PoolState, SeatQueue, SeatRecord, SlotRecord
from ostler.pool.core.values import MissReason, RefusalKind, SlotState, Warmth


def serve(state: PoolState, key_state: KeyState) -> None:
    """Grant what is ready to the claims that wait for it."""
    for queue in key_state.queues.values():
        while queue.parked and (waiting := queue.claims.head()) is not None:
            seat = min(queue.parked.values(), key=lambda seat: seat.slot.retire is not None)
            grant(state, waiting, seat)


def grant(state: PoolState, waiting: Waiting, seat: SeatRecord) -> None:
    lease = state.lease(waiting, seat)
    warmth = _warmth(waiting, seat.slot, seat)
    miss = MissReason.NONE if warmth is Warmth.PARKED else waiting.miss
    waited = state.now - waiting.since
    state.emit(Grant(waiting.claim, lease, waiting.key, seat.slot.id, seat.id, warmth, miss, waited))


def _warmth(waiting: Waiting, slot: SlotRecord, seat: SeatRecord) -> Warmth:
    if seat.parked_step < waiting.step:
        return Warmth.PARKED
    if slot.ready_step > waiting.step:
        return Warmth.COLD
    if slot.adopted_step >= waiting.step:
        return Warmth.SPARE
    return Warmth.WARM


def refuse(
    state: PoolState,
    waiting: Waiting,
    kind: RefusalKind,
    *,
    phase: str = "",
    text: str = "",
    retry_after: float | None = None,
) -> None:
    """End a waiting claim with an error that names its cause."""
    state.dequeue(waiting)
    if retry_after is None and kind is RefusalKind.SATURATED:
        retry_after = patience(state)
    if not text and (breaker := state.breakers.get(state.keys[waiting.key].spec.group)) is not None:
        phase, text = breaker.last.phase, breaker.last.text
    waited = state.now - waiting.since
    state.emit(Refuse(waiting.claim, kind, waited, census(state), retry_after, phase, text))


def patience(state: PoolState) -> float:
    """When the next lease is likely to end: the mean time for which a lease is held, divided by the leases now held."""
    return min(60.0, max(0.1, state.hold_seconds / max(1, len(state.leases))))


def why_missed(state: PoolState, key_state: KeyState, queue: SeatQueue) -> MissReason:
    """Why a parked seat cannot serve the next claim of the queue."""
    if state.paused or key_state.paused:
        return MissReason.PAUSED
    breaker = state.breakers.get(key_state.spec.group)
    if breaker is not None and breaker.claims_after > state.now:
        return MissReason.BACKOFF
    if any(slot.room for slot in key_state.slots.values()):
        return MissReason.FIRST_USE if queue.arrivals.mass == 0.0 else MissReason.RESERVE_EMPTY
    return _without_room(key_state)


def _without_room(key_state: KeyState) -> MissReason:
    slots = key_state.slots.values()
    if any(slot.state is SlotState.READY and not slot.shunned for slot in slots):
        return MissReason.FULL
    if any(slot.state is SlotState.STARTING for slot in slots):
        return MissReason.STARTING
    return MissReason.REPLACING if slots else MissReason.NO_PROCESS
