"""Which state may follow which, as data. Anything else raises: an impossible transition is our defect, never
theirs.
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


class ImpossibleTransition(AssertionError):  # the name says what it is
    """The machine tried to make a move that its table does not have."""


def moved(table: dict[State, frozenset[State]], before: State, after: State) -> State:
    """The new state, if the table knows the way."""
    if after not in table[before]:
        raise ImpossibleTransition(f"{before.value} -> {after.value}")
    return after
