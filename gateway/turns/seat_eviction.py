"""Which seat between two turns should be given up for a claim that can get none otherwise.

Rules: pure. A claim that waits for a start or for an agent's own session/new waits for the agent, and nobody's seat
would help it; nor would it one that waits for its key to be tried again, or for the pause between many starts. A seat
of the key itself helps as soon as its agent has let go of it, and meanwhile one claim asks for no second one. One of
another key helps only where the house is full and the key is not, and only together with all others of its process: so
the process that the fewest would lose is emptied, and none on which somebody works.
"""

from collections import Counter
from collections.abc import Iterable

from ostler.pool.core.census import KeyView, LeaseView, Snapshot
from ostler.pool.core.values import SlotState

LOOKING = 0.02
"""Seconds between two looks at the pool, however many wait."""
LASTING = SlotState.READY, SlotState.DRAINING
"""A process that drains ends with the turn that runs there, and that may take longer than a claim can wait."""


def first_to_go(seen: Snapshot, resting: Iterable[int]) -> int | None:
    """The lease to end, of those that rest, the longest rest first. None: no end would help anybody."""
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
    """No process is on its way in or out: had the limits let it, the pool would have started one."""
    census = seen.census
    draining = sum(slot.state is SlotState.DRAINING for key in seen.keys for slot in key.slots)
    return not (census.starting or census.dying > draining or census.throttled)


def is_stuck(key: KeyView) -> bool:
    """Somebody waits, and nothing of this key is about to be there for him."""
    coming = any(slot.opening or slot.state not in LASTING for slot in key.slots)
    given_up = sum(slot.closing for slot in key.slots if slot.state is SlotState.READY and not slot.shunned)
    return key.waiting > given_up and not coming and not key.paused and not key.retry_in


def _elsewhere(seen: Snapshot, rests: list[LeaseView]) -> int | None:
    """Of the process that the fewest sessions would lose."""
    resting = Counter(lease.slot for lease in rests)
    slots = (slot for key in seen.keys for slot in key.slots)
    idle = {slot.slot for slot in slots if slot.leased == resting[slot.slot] and not slot.opening}
    ends = [lease for lease in rests if lease.slot in idle]
    return min(ends, key=lambda lease: resting[lease.slot]).lease if ends else None
