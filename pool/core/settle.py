"""Settle one key, or all unserved keys. Level-triggered: it looks at the current state, not at what happened."""

from ostler.pool.core.opens import open_seats
from ostler.pool.core.outcomes import serve
from ostler.pool.core.recycling import replace_retired
from ostler.pool.core.starts import adopt_spares, ensure_spares, start_missing, take_from_reserve
from ostler.pool.core.state import KeyState, PoolState


def settle(state: PoolState, key_state: KeyState) -> None:
    """Replace, grant, open, start. Retired processes go first, so that the rest is decided on the processes that
    stay.
    """
    replace_retired(state, key_state)
    if state.paused or key_state.paused:
        return
    serve(state, key_state)
    while take_from_reserve(state, key_state):
        serve(state, key_state)
    if adopt_spares(state, key_state):
        serve(state, key_state)
    open_seats(state, key_state)
    start_missing(state, key_state)


def settle_fairly(state: PoolState, touched: KeyState | None) -> None:
    """Settle the key that the event touched; if capacity was freed, all unserved keys with it, in their owners'
    order.
    """
    if touched is not None:
        if state.capacity_changed:
            state.mark_unserved(touched)
        else:
            settle(state, touched)
    while state.capacity_changed and state.unserved_keys:
        for key_state in state.take_unserved():
            settle(state, key_state)
    state.capacity_changed = False
    if state.recount_spares and not state.paused:
        state.recount_spares = False
        ensure_spares(state)
