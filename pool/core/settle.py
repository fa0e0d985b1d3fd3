"""Bring one key, or all that are short, to rest. Level-triggered: it asks what is, not what happened."""

from ostler.pool.core.books import Books, Stable
from ostler.pool.core.opens import open_seats
from ostler.pool.core.outcomes import serve
from ostler.pool.core.recycling import replace_retired
from ostler.pool.core.starts import adopt_spares, ensure_spares, start_missing, take_from_reserve


def settle(books: Books, stable: Stable) -> None:
    """Retired processes go first, so that what follows is decided on those that stay."""
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


def settle_fairly(books: Books, touched: Stable | None) -> None:
    """Settle the key that the event touched, with all the hungry ones when something became free for them."""
    if touched is not None:
        if books.freed:
            books.hungry[touched.key] = touched
        else:
            settle(books, touched)
    while books.freed and books.hungry:
        books.freed = False
        waiting = list(books.hungry.values())
        if len(waiting) > 1:
            waiting.sort(key=books.rank)
        books.hungry = {}
        for stable in waiting:
            settle(books, stable)
    books.freed = False
    if books.recount_spares and not books.paused:
        books.recount_spares = False
        ensure_spares(books)
