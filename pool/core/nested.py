"""No self-deadlock. A turn that holds a seat may claim another one for its child.

Decision: no seats are held back for children (a reserve only moves the deadlock one level down). A child's claim that
only leases which themselves wait for children could serve is refused at once with DEADLOCK. As long as one lease in its
way is free to end, it waits like any other claim.
"""

from collections.abc import Iterable

from ostler.pool.core.outcomes import refuse
from ostler.pool.core.starts import Denial, denial
from ostler.pool.core.state import KeyState, LeaseRecord, PoolState
from ostler.pool.core.values import RefusalKind, SeatState, SlotState


def refuse_deadlocked(books: PoolState) -> None:
    for waiting in list(books.nested.values()):
        blocked = {one.parent for one in books.nested.values()}
        stable = books.stables[waiting.key]
        holders = _in_the_way(books, stable)
        if holders and all(lease.id in blocked for lease in holders):
            refuse(
                books,
                waiting,
                RefusalKind.DEADLOCK,
                text=f"{len(holders)} leases in the way wait for children too",
            )


def _in_the_way(books: PoolState, stable: KeyState) -> list[LeaseRecord]:
    """The leases of which one must end before the key's claim is served; empty if something else can serve it."""
    if books.paused or stable.paused or _is_moving(stable):
        return []
    denied = denial(books, stable, background=False)
    if denied is Denial.KEY_CAP:
        return _leases(stable)
    if denied in {Denial.POOL_CAP, Denial.MEMORY}:
        if any(slot.state in {SlotState.CLOSING, SlotState.STARTING} for slot in books.slots.values()):
            return []
        return list(books.leases.values())
    return []


def _is_moving(stable: KeyState) -> bool:
    """Whether a start, an open or a close is under way that may serve a claim without any lease ending."""
    return any(
        slot.state in {SlotState.STARTING, SlotState.CLOSING}
        or any(seat.state in {SeatState.OPENING, SeatState.CLOSING} for seat in slot.seats.values())
        for slot in stable.slots.values()
    )


def _leases(stable: KeyState) -> list[LeaseRecord]:
    found: Iterable[LeaseRecord] = (lease for slot in stable.slots.values() for lease in slot.leases.values())
    return list(found)
