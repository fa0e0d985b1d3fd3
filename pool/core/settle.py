"""Settle one key, or all unserved keys. Level-triggered: it looks at the current state, not at what happened."""

from ostler.pool.core.opens import open_seats
from ostler.pool.core.outcomes import serve
from ostler.pool.core.recycling import replace_retired
from ostler.pool.core.starts import adopt_spares, ensure_spares, start_missing, take_from_reserve
from ostler.pool.core.state import KeyState, PoolState


def settle(books: PoolState, stable: KeyState) -> None:
    """Replace, grant, open, start. Retired processes go first, so that the rest is decided on the processes that
    stay.
    """
    replace_retired(books, stable)
    if books.paused or stable.paused:
        return
    serve(books, stable)
    while take_from_reserve(books, stable):
        serve(books, stable)
    if adopt_spares(books, stable):
        serve(books, stable)
    open_seats(books, stable)
    start_missing(books, stable)


def settle_fairly(books: PoolState, touched: KeyState | None) -> None:
    """Settle the key that the event touched; if capacity was freed, all unserved keys with it, in their owners'
    order.
    """
    if touched is not None:
        if books.capacity_changed:
            books.unserved_keys[touched.key] = touched
        else:
            settle(books, touched)
    while books.capacity_changed and books.unserved_keys:
        books.capacity_changed = False
        waiting = list(books.unserved_keys.values())
        if len(waiting) > 1:
            waiting.sort(key=books.rank)
        books.unserved_keys = {}
        for stable in waiting:
            settle(books, stable)
    books.capacity_changed = False
    if books.recount_spares and not books.paused:
        books.recount_spares = False
        ensure_spares(books)
