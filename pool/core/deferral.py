"""Work done ahead is deferred for callers that wait for an answer now.

A cold start, and the first turn of a fresh process, need the whole machine: the agent loads its code, connects to its
tools and its model. A second process that starts beside it, for claims that may come, takes a core of it. Without
deferral the reserve slowed down the claim that had caused it.

Rules:
- The first answer of a process is *pending* from its first lease until it begins to answer. While any is pending, and
  while a process or seat is made for a waiting claim, no process of any key or provider is started ahead: starting
  takes the machine, not only the process.
- A process whose first answer is pending opens no seats ahead, nor does a fresh process while claims of its key wait.
  Other processes may: opening takes only the process that opens.
- Nothing is deferred for longer than `give_way` seconds, counted from the first deferral since the pool was last calm,
  not from the latest one. So neither an answer that never comes nor a steady sequence of claims keeps the reserve away.
- Starts and opens for waiting claims are never deferred.
"""

from ostler.pool.core.state import KeyState, PoolState, SlotRecord


def start_is_deferred(books: PoolState, stable: KeyState) -> bool:
    """Whether the process that the key lacks must not be started ahead yet."""
    stable.gave_way_at = _since(books, stable.gave_way_at)
    return _goes_on(books, stable.gave_way_at)


def is_deferred_now(books: PoolState, stable: KeyState) -> bool:
    """Whether the last call of `start_is_deferred` would still say yes. Read-only: records nothing."""
    since = stable.gave_way_at
    return since is not None and since >= books.calm_at and books.now < since + books.limits.give_way


def spare_is_deferred(books: PoolState, stable: KeyState) -> bool:
    """Whether the spare that the key lacks must not be started yet."""
    stable.spares_gave_way_at = _since(books, stable.spares_gave_way_at)
    return _goes_on(books, stable.spares_gave_way_at)


def open_is_deferred(books: PoolState, stable: KeyState, slot: SlotRecord) -> bool:
    """Whether no seat may be opened ahead on this process yet."""
    since = books.first_answer_pending.get(slot.id)
    if since is None and stable.waiting and not slot.has_answered:
        since = slot.ready_at  # the waiting claim's own seat comes first, and then its answer
    return _goes_on(books, since)


def note_calm(books: PoolState) -> None:
    """Called after every event: a key that was paused meanwhile, or had nothing to start, must not count from
    earlier.
    """
    if not _is_busy(books):
        books.calm_at = books.now


def _since(books: PoolState, before: float | None) -> float | None:
    if not _is_busy(books):
        return None
    return books.now if before is None or before <= books.calm_at else before


def _is_busy(books: PoolState) -> bool:
    """Whether a start or an open is under way while claims wait, or a first answer is pending."""
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
