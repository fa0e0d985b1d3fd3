"""What is kept warm for claims that have not come yet: parked seats per seat queue, processes per key.

Rules:
- The target is what was learned of the queue's arrivals, at least its floor, one while a hint lasts, and at most the
  rule's `most`.
- Nothing is opened ahead beyond the memory budget.
- A surplus parked seat is closed only if the agent can close it: otherwise closing frees nothing and leaks a session.
- Retired processes carry no reserve.
"""

import math

from ostler.pool.core.state import KeyState, PoolState, SeatQueue
from ostler.pool.core.values import SlotState


def target(books: PoolState, stable: KeyState, line: SeatQueue) -> int:
    """Seats to keep parked in this seat queue now."""
    if stable.cool:
        return 0
    wanted = line.arrivals.target(books.now, refill_seconds(stable)) or (1 if books.now < line.hint_until else 0)
    return min(max(wanted, line.floor), books.limits.reserve.most)


def deficit(books: PoolState, stable: KeyState, line: SeatQueue) -> int:
    """Seats to open ahead. Opening seats that waiting claims will take do not count as reserve."""
    ahead = max(0, line.opening - line.ring.count)
    return target(books, stable, line) - parked_to_stay(line) - ahead


def parked_to_stay(line: SeatQueue) -> int:
    """Parked seats whose process is not to be replaced."""
    return sum(seat.slot.retire is None for seat in line.parked.values())


def refill_seconds(stable: KeyState) -> float:
    """How long a new seat takes: the measured open with the pause before it. Where a seat needs its own process, add
    the start, and the first answer for which that start is deferred.
    """
    traits = stable.spec.traits
    opened = traits.refill_pause + stable.open_seconds
    if traits.seats_per_process > 1:
        return opened
    return opened + (stable.start_seconds or traits.start_seconds) + stable.answer_seconds


def processes_wanted(books: PoolState, stable: KeyState) -> int:
    """How many unretired processes the key should have while no claims wait."""
    if stable.cool:
        return 0
    now = books.now
    refill = refill_seconds(stable)
    seats, moving, settled, recurring = 0, 0, 0, False
    for line in stable.queues.values():
        seats += target(books, stable, line)
        recurring = recurring or now < line.hint_until or line.arrivals.recurring(now, refill)
    for slot in stable.slots.values():
        if slot.retire is None and slot.state is SlotState.READY:
            settled += len(slot.leases)
        else:
            moving += len(slot.leases)
    wanted = 1 if recurring else 0
    if seats + moving:
        wanted = max(wanted, math.ceil((settled + seats + moving) / stable.spec.traits.seats_per_process))
    return min(wanted, key_cap(books, stable))


def key_cap(books: PoolState, stable: KeyState) -> int:
    return min(stable.spec.max_processes or books.limits.max_processes_per_key, books.limits.max_processes)


def is_tight(books: PoolState, more: int) -> bool:
    """Whether this many bytes more would exceed the memory budget."""
    budget = books.limits.memory_budget
    return budget is not None and books.charged + more > budget
