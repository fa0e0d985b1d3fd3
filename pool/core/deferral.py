"""What is done ahead makes way for those who wait for an answer now.

A cold start, and the first turn of a fresh process, want the whole machine: it loads its code, connects to its tools
and its model. A second process that starts beside it, for claims that may come, takes a core of it; so the reserve
made the very claim slower that had taught it.

Rules:
- A process is *unheard* from its first lease until it begins to answer. Whatever its key or provider, no process is
  started ahead meanwhile, nor while one is made for somebody who waits: starting takes the machine, not the process.
- An unheard process opens no seats ahead, nor does one that has just come up for somebody. Others may: opening takes
  its own process only.
- Nobody gives way for longer than `give_way` seconds, counted from the first time since it was calm and not from the
  last: neither an answer that never comes nor one claim after the other keeps the reserve away for ever.
- Those who wait give way to nobody.
"""

from ostler.pool.core.state import KeyState, PoolState, SlotRecord


def start_is_deferred(books: PoolState, stable: KeyState) -> bool:
    """Whether the process that the key lacks is not to be started yet."""
    stable.gave_way_at = _since(books, stable.gave_way_at)
    return _goes_on(books, stable.gave_way_at)


def is_deferred_now(books: PoolState, stable: KeyState) -> bool:
    """Whether it did when it was last asked. A look: nothing is booked."""
    since = stable.gave_way_at
    return since is not None and since >= books.calm_at and books.now < since + books.limits.give_way


def spare_is_deferred(books: PoolState, stable: KeyState) -> bool:
    """The same of a spare."""
    stable.spares_gave_way_at = _since(books, stable.spares_gave_way_at)
    return _goes_on(books, stable.spares_gave_way_at)


def open_is_deferred(books: PoolState, stable: KeyState, slot: SlotRecord) -> bool:
    """Whether nothing is to be opened ahead on the process yet."""
    since = books.first_answer_pending.get(slot.id)
    if since is None and stable.waiting and not slot.has_answered:
        since = slot.ready_at  # somebody's own seat comes first, and then the answer
    return _goes_on(books, since)


def note_calm(books: PoolState) -> None:
    """After every event: a key that was paused in between, or had nothing to start, must not count from before."""
    if not _is_busy(books):
        books.calm_at = books.now


def _since(books: PoolState, before: float | None) -> float | None:
    if not _is_busy(books):
        return None
    return books.now if before is None or before <= books.calm_at else before


def _is_busy(books: PoolState) -> bool:
    """Whether somebody is being started or opened for, or waits for a first answer."""
    if books.claims and (books.starting or books.opening):
        return True
    return any(_goes_on(books, since) for since in books.first_answer_pending.values())


def _goes_on(books: PoolState, since: float | None) -> bool:
    if since is None:
        return False
    until = since + books.limits.give_way
    if books.now >= until:
        return False
    books.alarm(until)
    return True
