"""Which idle seat should be released for a claim that can get a seat in no other way.

Rules:
- Pure: a snapshot of the pool in, a lease out.
- A claim that waits for a start or for an agent's session/new waits for the agent, and no released seat would help it;
  nor one whose key waits for its next try, or that waits for the pause between many starts.
- A seat of the same key helps as soon as its agent has closed the session; until then that claim asks for no second
  one.
- A seat of another key helps only if the pool is full and the key is not, and only if all other seats of its process go
  too: the process whose end the fewest sessions would feel is emptied, and never one with a running turn.
"""

from collections import Counter
from collections.abc import Iterable

from ostler.pool.core.census import KeyView, LeaseView, Snapshot
from ostler.pool.core.values import SlotState

LOOKING = 0.02
"""Minimum seconds between two looks at the pool, however many claims wait."""
LASTING = SlotState.READY, SlotState.DRAINING
"""A draining process ends after the turn that runs there, which may take longer than a claim can wait."""


def first_to_go(seen: Snapshot, resting: Iterable[int]) -> int | None:
    """Return the lease to end among the `resting` ones, the longest idle first. None: no release would help a claim."""
    stuck = [key for key in seen.keys if is_stuck(key)]
    if not stuck:
        return None
    held: dict[int, LeaseView] = {lease.lease: lease for lease in seen.leases}
    rests = [held[lease] for lease in resting if lease in held]
    still = is_still(seen)
    helped = {key.key for key in stuck if still or key.full}
    own = next((lease for lease in rests if lease.key in helped), None)
    if own is not None:
        return own.lease
    return _elsewhere(seen, rests) if still and not all(key.full for key in stuck) else None


def is_still(seen: Snapshot) -> bool:
    """Whether no process is starting or ending: had the limits allowed it, the pool would have started one."""
    census = seen.census
    draining = sum(slot.state is SlotState.DRAINING for key in seen.keys for slot in key.slots)
    return not (census.starting or census.dying > draining or census.throttled)


def is_stuck(key: KeyView) -> bool:
    """Whether claims of this key wait, and no seat of the key is about to become free for them."""
    coming = any(slot.opening or slot.state not in LASTING for slot in key.slots)
    given_up = sum(slot.closing for slot in key.slots if slot.state is SlotState.READY and not slot.shunned)
    return key.waiting > given_up and not coming and not key.paused and not key.retry_in


def _elsewhere(seen: Snapshot, rests: list[LeaseView]) -> int | None:
    """Return a lease of the process whose end the fewest sessions would feel."""
    resting = Counter(lease.slot for lease in rests)
    slots = (slot for key in seen.keys for slot in key.slots)
    idle = {slot.slot for slot in slots if slot.leased == resting[slot.slot] and not slot.opening}
    ends = [lease for lease in rests if lease.slot in idle]
    return min(ends, key=lambda lease: resting[lease.slot]).lease if ends else None
