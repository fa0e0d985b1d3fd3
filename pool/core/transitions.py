"""Which state may follow which, as data.

Rules: any other move raises `ImpossibleTransition`. It is a defect of the core, never a fault of an agent or a caller.
"""

from typing import TypeVar

from ostler.pool.core.values import SeatState, SlotState

SLOT_MOVES: dict[SlotState, frozenset[SlotState]] = {
    SlotState.STARTING: frozenset({SlotState.READY, SlotState.CLOSING, SlotState.GONE}),
    SlotState.READY: frozenset({SlotState.DRAINING, SlotState.CLOSING, SlotState.GONE}),
    SlotState.DRAINING: frozenset({SlotState.CLOSING, SlotState.GONE}),
    SlotState.CLOSING: frozenset({SlotState.GONE}),
    SlotState.GONE: frozenset(),
}

SEAT_MOVES: dict[SeatState, frozenset[SeatState]] = {
    SeatState.OPENING: frozenset({SeatState.PARKED, SeatState.CLOSING, SeatState.GONE}),
    SeatState.PARKED: frozenset({SeatState.LEASED, SeatState.CLOSING, SeatState.GONE}),
    SeatState.LEASED: frozenset({SeatState.CLOSING, SeatState.GONE}),
    SeatState.CLOSING: frozenset({SeatState.GONE}),
    SeatState.GONE: frozenset(),
}

State = TypeVar("State", SlotState, SeatState)


class ImpossibleTransition(AssertionError):  # named by what happened; it is a defect, not an error to handle
    """The core tried to make a move that its table does not have."""


def moved(table: dict[State, frozenset[State]], before: State, after: State) -> State:
    """Return the new state if the table allows the move; otherwise raise."""
    if after not in table[before]:
        raise ImpossibleTransition(f"{before.value} -> {after.value}")
    return after
