"""Everything that is due by the clock alone.

Rules:
- Only a Tick sweeps.
- Idle time is counted from the last use, never from birth, and never for a process that starts, has a lease or owes an
  open.
- A record that no longer carries information is dropped, so the state of a pool that has served a million sessions is
  as small as that of a new one.
"""

from ostler.pool.core.actions import ForgetKey, Probe
from ostler.pool.core.budget import shed, shrink
from ostler.pool.core.draining import begin_drain, stop, stop_again
from ostler.pool.core.failures import open_failed, prove, start_failed
from ostler.pool.core.opens import close_seat, leak_seat
from ostler.pool.core.outcomes import refuse
from ostler.pool.core.recycling import judge_age, judge_open, judge_seats
from ostler.pool.core.reserve import processes_wanted, refill_seconds, target
from ostler.pool.core.state import KeyState, PoolState, SeatQueue, SlotRecord
from ostler.pool.core.values import RefusalKind, RetireReason, SeatState, SlotState


def sweep(books: PoolState) -> None:
    _refuse_overdue(books)
    books.stop_listening()
    for seat in list(books.opening.values()):
        _watch_opening(books, seat.slot, books.now - seat.since)
    for seat in [seat for seat in books.opening.values() if _due(books, seat.since, books.limits.open_timeout)]:
        # An earlier failure in this loop may have retired the process and closed this seat already.
        if seat.state is SeatState.OPENING:
            open_failed(books, seat, f"no answer to the open for {books.limits.open_timeout:g} s")
    for seat in [seat for seat in books.closing.values() if _due(books, seat.since, books.limits.close_timeout)]:
        leak_seat(books, seat)
        judge_seats(books, seat.slot)
    for slot in books.slots.values():
        # Before any failure found by this sweep: a failed start neither disproves nor undoes a process that works.
        _prove_lasting(books, slot)
    for slot in list(books.slots.values()):
        _BY_STATE[slot.state](books, slot)
    shed(books)
    shrink(books)
    for stable in list(books.stables.values()):
        _tidy(books, stable)
    _forget_surplus(books)
    _drop_breakers(books)


def _due(books: PoolState, since: float, limit: float) -> bool:
    """Whether the limit has passed; if not, ask for a Tick when it does."""
    if books.now - since >= limit:
        return True
    books.alarm(since + limit)
    return False


def _refuse_overdue(books: PoolState) -> None:
    for waiting in list(books.claims.values()):
        if books.now >= waiting.deadline:
            held = books.paused or books.stables[waiting.key].paused
            refuse(books, waiting, RefusalKind.PAUSED if held else RefusalKind.SATURATED)
        else:
            books.alarm(waiting.deadline)


def _watch_opening(books: PoolState, slot: SlotRecord, open_for: float) -> None:
    if open_for >= books.limits.slow_open_after:
        judge_open(books, slot)
    else:
        books.alarm(books.now + books.limits.slow_open_after - open_for)


def _sweep_starting(books: PoolState, slot: SlotRecord) -> None:
    if _due(books, slot.since, books.limits.start_timeout):
        start_failed(books, slot, "timeout", f"not ready after {books.limits.start_timeout:g} s", 0.5, retryable=True)


def _prove_lasting(books: PoolState, slot: SlotRecord) -> None:
    lasting = max(10.0, slot.spec.traits.start_seconds)
    if slot.state is SlotState.READY and not slot.proven and books.now - slot.ready_at > lasting:
        prove(books, slot)


def _sweep_ready(books: PoolState, slot: SlotRecord) -> None:
    every = books.limits.probe_every
    if every is not None and _due(books, slot.probed_at, every):
        slot.probed_at = books.now
        books.alarm(books.now + every)
        books.emit(Probe(slot.id))
    if slot.stable is not None:
        _drain_idle(books, slot, slot.stable)
    elif not _spare_is_wanted(books, slot):
        begin_drain(books, slot, RetireReason.SURPLUS)
    judge_age(books, slot)


def _drain_idle(books: PoolState, slot: SlotRecord, stable: KeyState) -> None:
    if not slot.idle or stable.waiting or slot.retire is not None:
        return
    if not _due(books, slot.used_at, books.limits.idle_after):
        return
    up = sum(one.state is SlotState.READY and one.retire is None for one in stable.slots.values())
    if up > processes_wanted(books, stable):
        begin_drain(books, slot, RetireReason.IDLE)


def _spare_is_wanted(books: PoolState, slot: SlotRecord) -> bool:
    asked = [stable.spares for stable in books.stables.values() if stable.spec.group == slot.spec.group]
    there = [one.id for one in books.spares.values() if one.spec.group == slot.spec.group]
    return there.index(slot.id) < max(asked, default=0)


def _sweep_draining(books: PoolState, slot: SlotRecord) -> None:
    if _due(books, slot.since, books.limits.drain_timeout):
        stop(books, slot, RetireReason.DRAIN_DEADLINE, hard=False, text=f"drained for {books.limits.drain_timeout:g} s")


def _sweep_closing(books: PoolState, slot: SlotRecord) -> None:
    if _due(books, slot.since, books.limits.stop_timeout):
        stop_again(books, slot)


_BY_STATE = {
    SlotState.STARTING: _sweep_starting,
    SlotState.READY: _sweep_ready,
    SlotState.DRAINING: _sweep_draining,
    SlotState.CLOSING: _sweep_closing,
}


def _tidy(books: PoolState, stable: KeyState) -> None:
    for line in list(stable.queues.values()):
        _close_surplus(books, stable, line)
        if _says_nothing(books, stable, line):
            del stable.queues[line.tools]
    if stable.queues or stable.slots or stable.transports.count or stable.paused:
        stable.used_at = books.now
    elif books.now - stable.used_at >= _keep_seconds(books, stable) and not _stands_for_spares(books, stable):
        _forget(books, stable)


def _keep_seconds(books: PoolState, stable: KeyState) -> float:
    """How long an unused key is remembered; one that never had a ready process, until its backoff is over."""
    limits = books.limits
    return limits.forget_after if stable.came_up else min(limits.forget_after, 2.0 * limits.backoff_cap)


def _forget_surplus(books: PoolState) -> None:
    """Bound the number of keys that are only remembered, because clients choose models and directories."""
    asleep = [stable for stable in books.stables.values() if _is_asleep(books, stable)]
    surplus = len(asleep) - books.limits.max_idle_keys
    for stable in sorted(asleep, key=_last_claim)[: max(0, surplus)]:
        if not _stands_for_spares(books, stable):
            _forget(books, stable)


def _is_asleep(books: PoolState, stable: KeyState) -> bool:
    """Whether forgetting the key would lose nothing but what was learned of its arrivals."""
    return not (stable.slots or stable.transports.count or stable.paused) and not any(
        line.ring.count or line.parked or line.opening or line.floor or books.now < line.hint_until
        for line in stable.queues.values()
    )


def _last_claim(stable: KeyState) -> float:
    return max((line.arrivals.last for line in stable.queues.values()), default=stable.used_at)


def _forget(books: PoolState, stable: KeyState) -> None:
    del books.stables[stable.key]
    books.unserved_keys.pop(stable.key, None)
    books.emit(ForgetKey(stable.key))


def _stands_for_spares(books: PoolState, stable: KeyState) -> bool:
    """Whether the pool would lose its configured spares if this key were forgotten: it is the one used last.

    Every key of the provider asks for the spares. If each key were kept for that, a directory or model named once would
    stay until restart, and each model would keep its spare.
    """
    return stable.spares > 0 and not any(
        other is not stable
        and other.spec.provider == stable.spec.provider
        and other.spares >= stable.spares
        and other.used_at >= stable.used_at
        for other in books.stables.values()
    )


def _close_surplus(books: PoolState, stable: KeyState, line: SeatQueue) -> None:
    if stable.spec.traits.can_close:
        surplus = len(line.parked) - target(books, stable, line)
        for seat in list(line.parked.values())[: max(0, surplus)]:
            close_seat(books, seat)


def _says_nothing(books: PoolState, stable: KeyState, line: SeatQueue) -> bool:
    """Whether the seat queue could be dropped and created again without any loss.

    Bursts are worth a long memory. A tool set that came one at a time and no longer recurs is not: a client that sends
    another one with every request would leave a day's worth of them, and every decision looks at each.
    """
    if line.ring.count or line.parked or line.opening or line.floor or books.now < line.hint_until:
        return False
    if books.now - line.arrivals.last >= books.limits.forget_after:
        return True
    return line.arrivals.peak <= 1.0 and not line.arrivals.recurring(books.now, refill_seconds(stable))


def _drop_breakers(books: PoolState) -> None:
    if books.breakers:
        used = {stable.spec.group for stable in books.stables.values()}
        over = [
            group for group, one in books.breakers.items() if group not in used or one.is_over(books.now, books.limits)
        ]
        for group in over:
            del books.breakers[group]
