"""The pool's one decider. `handle(event, now)` records the event, then settles what it touched and returns the actions.

Rules:
- An event is a fact: it is recorded first and never disputed. An event that names something no longer in the state is
  stale: it is counted and has no other effect. Nothing acts on a slot or seat after it is GONE.
- After the facts comes `settle`: let retired processes go, grant what is ready, open what is missing, start what is
  missing. It looks at the state, not at the event, so no order of events can leave a claim waiting beside a usable
  seat.
- An event that frees capacity for others (a process place, an open, memory) also settles the unserved keys, in the
  order of their owners' turns.
- Time only moves forward here, even if the caller's clock goes back. No locks: nothing here can be interrupted.
"""

from collections.abc import Callable, Mapping
from typing import Any

from ostler.pool.core import client_events as intake
from ostler.pool.core import events
from ostler.pool.core import operator_events as orders
from ostler.pool.core import process_events as facts
from ostler.pool.core.actions import Action, WakeAt
from ostler.pool.core.census import Snapshot, census, snapshot
from ostler.pool.core.deferral import note_calm
from ostler.pool.core.nested import refuse_deadlocked
from ostler.pool.core.settings import Limits
from ostler.pool.core.settle import settle_fairly
from ostler.pool.core.state import KeyState, PoolState, StaleEvent
from ostler.pool.core.values import Counted, Key, PoolCensus


class PoolCore:
    """The decisions of one pool. Only `handle` changes the state; every other method reads it."""

    def __init__(self, limits: Limits) -> None:
        self.books = PoolState(limits)

    def tools_in_use(self) -> set[str]:
        """The tool sets that some seat queue still uses: the runner may forget all others."""
        return {tools for stable in self.books.stables.values() for tools in stable.queues}

    def handle(self, event: events.CoreEvent, now: float) -> list[Action]:
        """Record one event and return the actions, which the runner must perform in this order."""
        books = self.books
        books.now = max(books.now, now)
        books.step += 1
        books.out = []
        try:
            touched = _book(event, books)
        except StaleEvent:
            touched = None
            books.note(Counted.STALE, text=type(event).__name__)
        if not books.closed:
            settle_fairly(books, touched)
            if books.nested:
                refuse_deadlocked(books)
                settle_fairly(books, None)
        note_calm(books)
        self._announce()
        return books.out

    def _announce(self) -> None:
        books = self.books
        wake_at = max(books.wake_at, books.now + books.limits.sweep_grain)
        if wake_at < books.announced:
            books.announced = wake_at
            books.emit(WakeAt(wake_at))

    def knows(self, key: Key) -> bool:
        return key in self.books.stables

    def snapshot(self) -> Snapshot:
        return snapshot(self.books)

    def census(self) -> PoolCensus:
        return census(self.books)


# Dispatched by exact type: event classes are final, and the dispatch must cost less than recording the event.
_BOOKED: Mapping[type[Any], Callable[[Any, PoolState], KeyState | None]] = {
    events.KeyRegistered: intake.key_registered,
    events.Claim: intake.claim,
    events.ClaimAbandoned: intake.claim_abandoned,
    events.LeaseReleased: intake.lease_released,
    events.Answered: intake.answered,
    events.Hint: intake.hint,
    events.KeepWarm: intake.warm,
    events.SlotStarted: facts.slot_started,
    events.SlotStartFailed: facts.slot_start_failed,
    events.SlotDied: facts.slot_has_died,
    events.SlotSpent: facts.slot_spent,
    events.SlotGone: facts.slot_gone,
    events.SeatMade: facts.seat_made,
    events.SeatOpened: facts.seat_opened,
    events.SeatOpenFailed: facts.seat_open_failed,
    events.SeatClosed: facts.seat_closed,
    events.SeatBroken: facts.seat_broken,
    events.MemorySampled: facts.memory_sampled,
    events.ProbeAnswered: facts.probe_answered,
    events.ProbeMissed: facts.probe_missed,
    events.Pause: orders.pause,
    events.Resume: orders.resume,
    events.DrainKey: orders.drain_key,
    events.StopWarming: orders.cool,
    events.LimitsChanged: orders.limits_changed,
    events.Recycle: orders.recycle,
    events.Kill: orders.kill,
    events.Reconnect: orders.reconnect,
    events.Tick: orders.tick,
    events.Shutdown: orders.shutdown,
}


def _book(event: events.CoreEvent, books: PoolState) -> KeyState | None:
    book = _BOOKED.get(type(event))
    if book is None:
        raise TypeError(f"not an event of the pool: {event!r}")
    return book(event, books)
