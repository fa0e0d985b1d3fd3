"""The pool's one decider. `handle(event, now)` books the event, then settles what it touched and returns what
to do.

Rules:
- An event is a fact: it is booked first and never argued with. One that names something no longer in the
  books is stale: counted, and without any other effect. Nothing is ever acted on after it is GONE.
- After the facts comes `settle`: let the retired go, grant what is ready, open what is missing, start what is
  missing. It looks at the books, not at the event, so no order of events can leave a waiter beside a usable
  seat.
- What an event frees for others (a process place, an open, memory) settles the hungry keys too, in their
  owners' turn.
- Time only moves forward here, whatever the caller's clock does. No locks: nothing here can be interrupted.
"""

from functools import singledispatch

from ostler.pool.core import events, facts, intake, orders
from ostler.pool.core.actions import Action, WakeAt
from ostler.pool.core.books import Books, Stable, StaleEvent
from ostler.pool.core.census import Snapshot, census, describe, snapshot
from ostler.pool.core.nested import refuse_deadlocked
from ostler.pool.core.settings import Limits
from ostler.pool.core.settle import settle_fairly
from ostler.pool.core.values import Census, Counted, Key


class PoolCore:
    """The decisions of one pool."""

    def __init__(self, limits: Limits) -> None:
        self.books = Books(limits)

    def tools_in_use(self) -> set[str]:
        """The tool sets that some line still stands for: the shell need not remember what others were."""
        return {tools for stable in self.books.stables.values() for tools in stable.lines}

    def handle(self, event: events.Event, now: float) -> list[Action]:
        """Book one event; the actions are for the shell to perform in this order."""
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

    def census(self) -> Census:
        return census(self.books)

    def describe(self) -> str:
        return describe(self.books)


@singledispatch
def _book(event: events.Event, books: Books) -> Stable | None:  # noqa: ARG001  # the signature of all events
    raise TypeError(f"not an event of the pool: {event!r}")


_book.register(events.KeyRegistered, intake.key_registered)
_book.register(events.Claim, intake.claim)
_book.register(events.ClaimAbandoned, intake.claim_abandoned)
_book.register(events.LeaseReleased, intake.lease_released)
_book.register(events.TurnBoundary, intake.turn_boundary)
_book.register(events.Hint, intake.hint)
_book.register(events.Warm, intake.warm)
_book.register(events.SlotStarted, facts.slot_started)
_book.register(events.SlotStartFailed, facts.slot_start_failed)
_book.register(events.SlotDied, facts.slot_has_died)
_book.register(events.SlotGone, facts.slot_gone)
_book.register(events.SeatOpened, facts.seat_opened)
_book.register(events.SeatOpenFailed, facts.seat_open_failed)
_book.register(events.SeatClosed, facts.seat_closed)
_book.register(events.SeatBroken, facts.seat_broken)
_book.register(events.MemorySampled, facts.memory_sampled)
_book.register(events.ProbeAnswered, facts.probe_answered)
_book.register(events.ProbeMissed, facts.probe_missed)
_book.register(events.Pause, orders.pause)
_book.register(events.Resume, orders.resume)
_book.register(events.DrainKey, orders.drain_key)
_book.register(events.DrainSlot, orders.drain_slot)
_book.register(events.Cool, orders.cool)
_book.register(events.LimitsChanged, orders.limits_changed)
_book.register(events.Recycle, orders.recycle)
_book.register(events.Kill, orders.kill)
_book.register(events.Reconnect, orders.reconnect)
_book.register(events.Tick, orders.tick)
_book.register(events.Shutdown, orders.shutdown)
