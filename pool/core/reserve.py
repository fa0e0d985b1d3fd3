"""What is kept warm for claims that have not come yet: parked seats per seat queue, processes per key.

Rules:
- The target is what was learned of the queue's arrivals, at least its floor, and at most the rule's `most`.
- Nothing is opened ahead beyond the memory budget.
- A surplus parked seat is closed only if the agent can close it: otherwise closing frees nothing and leaks a session.
- Retired processes carry no reserve.
"""

import math

from ostler.pool.core.state import KeyState, PoolState, SeatQueue
from ostler.pool.core.values import SlotState


def target(state: PoolState, key_state: KeyState, queue: SeatQueue) -> int:
    """Seats to keep parked in this seat queue now."""
    if key_state.cool:
        return 0
    wanted = queue.arrivals.target(state.now, refill_seconds(key_state))
    return min(max(wanted, queue.floor), state.limits.reserve.most)


def deficit(state: PoolState, key_state: KeyState, queue: SeatQueue) -> int:
    """Seats to open ahead. Opening seats that waiting claims will take do not count as reserve."""
    ahead = max(0, queue.opening - queue.claims.count)
    return target(state, key_state, queue) - parked_to_stay(queue) - ahead


def parked_to_stay(queue: SeatQueue) -> int:
    """Parked seats whose process is not to be replaced."""
    return sum(seat.slot.retire is None for seat in queue.parked.values())


def refill_seconds(key_state: KeyState) -> float:
    """How long a new seat takes: the measured open with the pause before it. Where a seat needs its own process, add
    the start, and the first answer for which that start is deferred.
    """
    traits = key_state.spec.traits
    opened = traits.refill_pause + key_state.open_seconds
    if traits.seats_per_process > 1:
        return opened
    return opened + (key_state.start_seconds or traits.start_seconds) + key_state.answer_seconds


def processes_wanted(state: PoolState, key_state: KeyState) -> int:
    """How many unretired processes the key should have while no claims wait."""
    if key_state.cool:
        return 0
    now = state.now
    refill = refill_seconds(key_state)
    seats, moving, settled, recurring = 0, 0, 0, False
    for queue in key_state.queues.values():
        seats += target(state, key_state, queue)
        recurring = recurring or queue.arrivals.recurring(now, refill)
    for slot in key_state.slots.values():
        if slot.retire is None and slot.state is SlotState.READY:
            settled += len(slot.leases)
        else:
            moving += len(slot.leases)
    wanted = 1 if recurring else 0
    if seats + moving:
        wanted = max(wanted, math.ceil((settled + seats + moving) / key_state.spec.traits.seats_per_process))
    return min(wanted, key_cap(state, key_state))


def key_cap(state: PoolState, key_state: KeyState) -> int:
    return min(key_state.spec.max_processes or state.limits.max_processes_per_key, state.limits.max_processes)


def is_tight(state: PoolState, more: int) -> bool:
    """Whether this many bytes more would exceed the memory budget."""
    budget = state.limits.memory_budget
    return budget is not None and state.charged + more > budget
