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


def start_is_deferred(state: PoolState, key_state: KeyState) -> bool:
    """Whether the process that the key lacks must not be started ahead yet."""
    key_state.gave_way_at = _since(state, key_state.gave_way_at)
    return _goes_on(state, key_state.gave_way_at)


def is_deferred_now(state: PoolState, key_state: KeyState) -> bool:
    """Whether the last call of `start_is_deferred` would still say yes. Read-only: records nothing."""
    since = key_state.gave_way_at
    return since is not None and since >= state.calm_at and state.now < since + state.limits.give_way


def spare_is_deferred(state: PoolState, key_state: KeyState) -> bool:
    """Whether the spare that the key lacks must not be started yet."""
    key_state.spares_gave_way_at = _since(state, key_state.spares_gave_way_at)
    return _goes_on(state, key_state.spares_gave_way_at)


def open_is_deferred(state: PoolState, key_state: KeyState, slot: SlotRecord) -> bool:
    """Whether no seat may be opened ahead on this process yet."""
    since = state.first_answer_pending.get(slot.id)
    if since is None and key_state.waiting and not slot.has_answered:
        since = slot.ready_at  # the waiting claim's own seat comes first, and then its answer
    return _goes_on(state, since)


def note_calm(state: PoolState) -> None:
    """Called after every event: a key that was paused meanwhile, or had nothing to start, must not count from
    earlier.
    """
    if not _is_busy(state):
        state.calm_at = state.now


def _since(state: PoolState, before: float | None) -> float | None:
    if not _is_busy(state):
        return None
    return state.now if before is None or before <= state.calm_at else before


def _is_busy(state: PoolState) -> bool:
    """Whether a start or an open is under way while claims wait, or a first answer is pending."""
    if state.claims and (state.starting or state.opening):
        return True
    return any(_goes_on(state, since) for since in state.first_answer_pending.values())


def _goes_on(state: PoolState, since: float | None) -> bool:
    if since is None:
        return False
    until = since + state.limits.give_way
    if state.now >= until:
        return False
    state.alarm(until)
    return True
