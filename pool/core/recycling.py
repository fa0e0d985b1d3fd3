"""Replacement before retirement.

Rules:
- A process is retired for its age, the seats it served or leaked, growth by more than a fresh one uses, silence while
  others answer, slow or failing opens, another fingerprint, or by the operator. Retired is a mark, not an end: the
  process keeps serving until a fresh one is READY, unless it must not (`SHUNNING`).
- The retired process drains when a fresh one is READY, when no successor is needed, or when a cap leaves no place
  beside it: at the cap the order is drain first, then start.
- A fresh process above the memory ceiling proves the ceiling wrong: the ceiling is switched off for the key, and this
  is reported once.
"""

from ostler.pool.core.draining import begin_drain, shun, stop
from ostler.pool.core.reserve import is_tight, parked_to_stay, processes_wanted, target
from ostler.pool.core.starts import CAPS, denial
from ostler.pool.core.state import KeyState, PoolState, SlotRecord
from ostler.pool.core.values import CoreSharing, Counted, RetireReason, SlotState

SHUNNING = frozenset(
    {
        RetireReason.FINGERPRINT,
        RetireReason.WEDGED,
        RetireReason.SLOW_OPENS,
        RetireReason.OPENS_FAIL,
        RetireReason.USED_UP,
    }
)


def retire(state: PoolState, slot: SlotRecord, cause: RetireReason) -> None:
    """Mark a READY process for replacement; the first cause is kept."""
    if slot.state is not SlotState.READY or slot.retire is not None:
        return
    if slot.key_state is None:
        begin_drain(state, slot, cause)
        return
    slot.retire = cause
    state.note(Counted.RETIRED, slot, cause)
    if cause in SHUNNING:
        shun(state, slot)


def spend(state: PoolState, slot: SlotRecord) -> None:
    """The process ended with its session. It waits for no successor: a dead process serves no claims meanwhile."""
    if slot.retire is None:
        slot.retire = RetireReason.USED_UP
        state.note(Counted.RETIRED, slot, slot.retire)
    stop(state, slot, slot.retire, hard=False)


def judge_seats(state: PoolState, slot: SlotRecord) -> None:
    """Called after a seat ended: retire the process if it has served or leaked enough seats."""
    traits = slot.spec.traits
    if (traits.sharing is CoreSharing.NONE and slot.opened and not slot.seats) or (
        traits.sharing is CoreSharing.PER_CWD and slot.leaked
    ):
        retire(state, slot, RetireReason.USED_UP)
    elif traits.recycle_after_leaks is not None and slot.leaked >= traits.recycle_after_leaks:
        retire(state, slot, RetireReason.SEATS_LEAKED)
    elif traits.recycle_after_seats is not None and slot.served >= traits.recycle_after_seats:
        retire(state, slot, RetireReason.SEATS_SERVED)


def judge_age(state: PoolState, slot: SlotRecord) -> None:
    limits = state.limits
    age = limits.max_age * (1.0 - limits.age_jitter * slot.jitter)
    if state.now - slot.born >= age:
        retire(state, slot, RetireReason.AGE)
    else:
        state.alarm(slot.born + age)


def judge_memory(state: PoolState, slot: SlotRecord, key_state: KeyState, own: int, sessions: int) -> None:
    """Called after a measurement: retire the process if it has outgrown itself or the ceiling.

    Growth is judged by the process's own memory, because its share of common memory doubles when a neighbour ends. The
    allowed growth is a part of what all of it used when fresh, because a native program's own memory is small at first
    and doubles with a few sessions.
    """
    limits = state.limits
    ceiling = limits.memory_ceiling
    fresh = not slot.weights.least
    grown = slot.weights.outgrown(sessions, own, key_state.start_bytes * (limits.memory_growth - 1.0))
    if fresh:
        key_state.start_bytes = slot.charge
        if ceiling is not None and slot.charge > ceiling and not key_state.ceiling_off:
            key_state.ceiling_off = True
            state.note(Counted.CEILING_TOO_LOW, slot, text=f"fresh at {slot.charge} bytes, ceiling {ceiling}")
        return
    above = ceiling is not None and slot.charge > ceiling and not key_state.ceiling_off
    before = key_state.memory_retired_at
    spaced = before is None or state.now - before >= limits.memory_recycle_spacing
    if (grown or above) and spaced and slot.retire is None and slot.state is SlotState.READY:
        key_state.memory_retired_at = state.now
        retire(state, slot, RetireReason.MEMORY_GROWTH)


def judge_open(state: PoolState, slot: SlotRecord) -> None:
    """Called when an open takes long. The first time the process is retired for it. If its successor is as slow soon
    after, the machine is the cause, and one start after another would slow the machine further.
    """
    key_state = slot.key_state
    if slot.retire is not None or key_state is None:
        return
    before = key_state.slow_retired_at
    if before is None or state.now - before >= state.limits.slow_open_spacing:
        key_state.slow_retired_at = state.now
        retire(state, slot, RetireReason.SLOW_OPENS)
    else:
        state.alarm(before + state.limits.slow_open_spacing)


def judge_silence(state: PoolState, slot: SlotRecord) -> None:
    """Called after a missed probe: retire a process that is silent while others answer. If no other answers, it is
    given twice as many probes.
    """
    others = [
        other
        for other in state.slots.values()
        if other is not slot and other.state is SlotState.READY and other.missed == 0 and other.retire is None
    ]
    patience = state.limits.probe_misses * (1 if others else 2)
    if slot.missed >= patience:
        retire(state, slot, RetireReason.WEDGED)


def replace_retired(state: PoolState, key_state: KeyState) -> None:
    """Drain each retired process whose successor is ready, not needed, or cannot start beside it."""
    retired = []
    for slot in key_state.slots.values():
        if slot.unjudged:
            slot.unjudged = False
            judge_seats(state, slot)
        if slot.retire is not None and slot.state is SlotState.READY:
            retired.append(slot)
    for slot in retired:
        if _may_drain(state, key_state, slot):
            begin_drain(state, slot, slot.retire or RetireReason.OPERATOR)


def _may_drain(state: PoolState, key_state: KeyState, slot: SlotRecord) -> bool:
    if slot.shunned and not slot.leases:
        return True
    states = {other.state for other in key_state.slots.values() if other.retire is None}
    if SlotState.READY in states:
        return not slot.parked or _reserve_moved(state, key_state)
    if SlotState.STARTING in states:
        return False
    if not key_state.waiting and not processes_wanted(state, key_state):
        return True
    return denial(state, key_state, background=True) in CAPS


def _reserve_moved(state: PoolState, key_state: KeyState) -> bool:
    """Whether the fresh processes hold the reserve already, or cannot."""
    if all(parked_to_stay(queue) >= target(state, key_state, queue) for queue in key_state.queues.values()):
        return True
    fresh = [slot for slot in key_state.slots.values() if slot.retire is None]
    return is_tight(state, key_state.spec.traits.seat_bytes) or not any(slot.room or slot.opening for slot in fresh)
