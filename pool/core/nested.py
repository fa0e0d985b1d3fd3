"""No self-deadlock. A turn that holds a seat may claim another one for its child.

Decision: no seats are held back for children (a reserve only moves the deadlock one level down). A child's claim that
only leases which themselves wait for children could serve is refused at once with DEADLOCK. As long as one lease in its
way is free to end, it waits like any other claim.
"""

from ostler.pool.core.outcomes import refuse
from ostler.pool.core.starts import Denial, denial
from ostler.pool.core.state import KeyState, PoolState
from ostler.pool.core.values import LeaseId, RefusalKind, SeatState, SlotState


def refuse_deadlocked(state: PoolState) -> None:
    for waiting in list(state.nested.values()):
        blocked = {one.parent for one in state.nested.values()}
        key_state = state.keys[waiting.key]
        holders = _in_the_way(state, key_state)
        if holders and all(lease in blocked for lease in holders):
            refuse(
                state,
                waiting,
                RefusalKind.DEADLOCK,
                text=f"{len(holders)} leases in the way wait for children too",
            )


def _in_the_way(state: PoolState, key_state: KeyState) -> list[LeaseId]:
    """The leases of which one must end before the key's claim is served; empty if something else can serve it."""
    if state.paused or key_state.paused or _is_moving(key_state):
        return []
    denied = denial(state, key_state, background=False)
    if denied is Denial.KEY_CAP:
        return [lease for slot in key_state.slots.values() for lease in slot.leases]
    if denied in {Denial.POOL_CAP, Denial.MEMORY}:
        if any(slot.state in {SlotState.CLOSING, SlotState.STARTING} for slot in state.slots.values()):
            return []
        return list(state.leases)
    return []


def _is_moving(key_state: KeyState) -> bool:
    """Whether a start, an open or a close is under way that may serve a claim without any lease ending."""
    return any(
        slot.state in {SlotState.STARTING, SlotState.CLOSING}
        or any(seat.state in {SeatState.OPENING, SeatState.CLOSING} for seat in slot.seats.values())
        for slot in key_state.slots.values()
    )
