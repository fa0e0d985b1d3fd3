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


def retire(books: PoolState, slot: SlotRecord, cause: RetireReason) -> None:
    """Mark a READY process for replacement; the first cause is kept."""
    if slot.state is not SlotState.READY or slot.retire is not None:
        return
    if slot.stable is None:
        begin_drain(books, slot, cause)
        return
    slot.retire = cause
    books.note(Counted.RETIRED, slot, cause)
    if cause in SHUNNING:
        shun(books, slot)


def spend(books: PoolState, slot: SlotRecord) -> None:
    """The process ended with its session. It waits for no successor: a dead process serves no claims meanwhile."""
    if slot.retire is None:
        slot.retire = RetireReason.USED_UP
        books.note(Counted.RETIRED, slot, slot.retire)
    stop(books, slot, slot.retire, hard=False)


def judge_seats(books: PoolState, slot: SlotRecord) -> None:
    """Called after a seat ended: retire the process if it has served or leaked enough seats."""
    traits = slot.spec.traits
    if (traits.sharing is CoreSharing.NONE and slot.opened and not slot.seats) or (
        traits.sharing is CoreSharing.PER_CWD and slot.leaked
    ):
        retire(books, slot, RetireReason.USED_UP)
    elif traits.recycle_after_leaks is not None and slot.leaked >= traits.recycle_after_leaks:
        retire(books, slot, RetireReason.SEATS_LEAKED)
    elif traits.recycle_after_seats is not None and slot.served >= traits.recycle_after_seats:
        retire(books, slot, RetireReason.SEATS_SERVED)


def judge_age(books: PoolState, slot: SlotRecord) -> None:
    limits = books.limits
    age = limits.max_age * (1.0 - limits.age_jitter * slot.jitter)
    if books.now - slot.born >= age:
        retire(books, slot, RetireReason.AGE)
    else:
        books.alarm(slot.born + age)


def judge_memory(books: PoolState, slot: SlotRecord, stable: KeyState, own: int, sessions: int) -> None:
    """Called after a measurement: retire the process if it has outgrown itself or the ceiling.

    Growth is judged by the process's own memory, because its share of common memory doubles when a neighbour ends. The
    allowed growth is a part of what all of it used when fresh, because a native program's own memory is small at first
    and doubles with a few sessions.
    """
    limits = books.limits
    ceiling = limits.memory_ceiling
    fresh = not slot.weights.least
    grown = slot.weights.outgrown(sessions, own, stable.start_bytes * (limits.memory_growth - 1.0))
    if fresh:
        stable.start_bytes = slot.charge
        if ceiling is not None and slot.charge > ceiling and not stable.ceiling_off:
            stable.ceiling_off = True
            books.note(Counted.CEILING_TOO_LOW, slot, text=f"fresh at {slot.charge} bytes, ceiling {ceiling}")
        return
    above = ceiling is not None and slot.charge > ceiling and not stable.ceiling_off
    before = stable.memory_retired_at
    spaced = before is None or books.now - before >= limits.memory_recycle_spacing
    if (grown or above) and spaced and slot.retire is None and slot.state is SlotState.READY:
        stable.memory_retired_at = books.now
        retire(books, slot, RetireReason.MEMORY_GROWTH)


def judge_open(books: PoolState, slot: SlotRecord) -> None:
    """Called when an open takes long. The first time the process is retired for it. If its successor is as slow soon
    after, the machine is the cause, and one start after another would slow the machine further.
    """
    stable = slot.stable
    if slot.retire is not None or stable is None:
        return
    before = stable.slow_retired_at
    if before is None or books.now - before >= books.limits.slow_open_spacing:
        stable.slow_retired_at = books.now
        retire(books, slot, RetireReason.SLOW_OPENS)
    else:
        books.alarm(before + books.limits.slow_open_spacing)


def judge_silence(books: PoolState, slot: SlotRecord) -> None:
    """Called after a missed probe: retire a process that is silent while others answer. If no other answers, it is
    given twice as many probes.
    """
    others = [
        other
        for other in books.slots.values()
        if other is not slot and other.state is SlotState.READY and other.missed == 0 and other.retire is None
    ]
    patience = books.limits.probe_misses * (1 if others else 2)
    if slot.missed >= patience:
        retire(books, slot, RetireReason.WEDGED)


def replace_retired(books: PoolState, stable: KeyState) -> None:
    """Drain each retired process whose successor is ready, not needed, or cannot start beside it."""
    retired = []
    for slot in stable.slots.values():
        if slot.unjudged:
            slot.unjudged = False
            judge_seats(books, slot)
        if slot.retire is not None and slot.state is SlotState.READY:
            retired.append(slot)
    for slot in retired:
        if _may_drain(books, stable, slot):
            begin_drain(books, slot, slot.retire or RetireReason.OPERATOR)


def _may_drain(books: PoolState, stable: KeyState, slot: SlotRecord) -> bool:
    if slot.shunned and not slot.leases:
        return True
    states = {other.state for other in stable.slots.values() if other.retire is None}
    if SlotState.READY in states:
        return not slot.parked or _reserve_moved(books, stable)
    if SlotState.STARTING in states:
        return False
    if not stable.waiting and not processes_wanted(books, stable):
        return True
    return denial(books, stable, background=True) in CAPS


def _reserve_moved(books: PoolState, stable: KeyState) -> bool:
    """Whether the fresh processes hold the reserve already, or cannot."""
    if all(parked_to_stay(line) >= target(books, stable, line) for line in stable.queues.values()):
        return True
    fresh = [slot for slot in stable.slots.values() if slot.retire is None]
    return is_tight(books, stable.spec.traits.seat_bytes) or not any(slot.room or slot.opening for slot in fresh)
