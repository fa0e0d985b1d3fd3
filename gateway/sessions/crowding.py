"""Whether somebody waits for a process that sessions between their turns could make free.

Rules: pure. A claim that waits for a start or for an agent's own session/new waits for the agent, and nobody's seat
would help it; nor would it one that waits for its key to be tried again, or for the pause between many starts.
"""

from ostler.pool.core.census import KeyView, Snapshot
from ostler.pool.core.values import SlotState

LOOKING = 0.02
"""Seconds between two looks at the pool, however many wait."""


def crowded(seen: Snapshot) -> bool:
    """A claim waits and no process is on its way in or out: had the limits let it, the pool would have started one."""
    census = seen.census
    still = not (census.starting or census.dying or census.throttled)
    return bool(census.waiting) and still and any(map(stuck, seen.keys))


def stuck(key: KeyView) -> bool:
    """Nothing of this key is about to be there."""
    coming = any(slot.opening or slot.state is not SlotState.READY for slot in key.slots)
    return bool(key.waiting) and not coming and not key.paused and not key.retry_in
