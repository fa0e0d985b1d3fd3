"""Whether somebody waits for a process that sessions between their turns could make free.

Rules: pure. A claim that waits for a start or for an agent's own session/new waits for the agent, and nobody's seat
would help it.
"""

from ostler.pool.core.census import KeyView, Snapshot
from ostler.pool.core.values import SlotState


def crowded(seen: Snapshot) -> bool:
    """Every process that may run does, none of them is on its way in or out, and a claim waits."""
    census = seen.census
    return (
        bool(census.waiting)
        and census.processes >= census.max_processes
        and not census.starting
        and not census.dying
        and any(stuck(key) for key in seen.keys)
    )


def stuck(key: KeyView) -> bool:
    """Nothing of this key is about to be there."""
    coming = any(slot.opening or slot.state is not SlotState.READY for slot in key.slots)
    return bool(key.waiting) and not coming and not key.paused
