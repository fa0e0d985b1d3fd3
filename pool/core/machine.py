"""The pool's one decider. `handle(event, now)` records the event, then settles what it touched and returns the actions.

Rules:
- An event is a fact: it is recorded first and never disputed. An event that names something no longer in the state is
  stale: it is counted and has no other effect. Nothing acts on a slot or seat after it is GONE.
- After the facts comes `settle`: let retired processes go, grant what is ready, open what is missing, start what is
  missing. It looks at the state, not at the event, so no order of events can leave a claim waiting beside a usable
  seat.
- An event that frees capacity for others (a process place, an open, memory) also settles the unserved keys, in the
  order of their owners' turns.
- No locks: nothing here can be interrupted.
"""

from collections.abc import Callable, Mapping
from typing import Any

from ostler.pool.core import client_events, events, operator_events, process_events
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
        self.state = PoolState(limits)

    def handle(self, event: events.CoreEvent, now: float) -> list[Action]:
        """Record one event and return the actions, which the runner must perform in this order."""
        state = self.state
        state.begin(now)
        try:
            touched = _record(event, state)
        except StaleEvent:
            touched = None
            state.note(Counted.STALE, text=type(event).__name__)
        if not state.closed:
            settle_fairly(state, touched)
            if state.nested:
                refuse_deadlocked(state)
                settle_fairly(state, None)
        note_calm(state)
        self._announce()
        return state.out

    def _announce(self) -> None:
        state = self.state
        wake_at = max(state.wake_at, state.now + state.limits.sweep_grain)
        if wake_at < state.announced:
            state.announced = wake_at
            state.emit(WakeAt(wake_at))

    def knows(self, key: Key) -> bool:
        return key in self.state.keys

    def snapshot(self) -> Snapshot:
        return snapshot(self.state)

    def census(self) -> PoolCensus:
        return census(self.state)


# Dispatched by exact type: event classes are final, and the dispatch must cost less than recording the event.
_RECORDERS: Mapping[type[Any], Callable[[Any, PoolState], KeyState | None]] = {
    events.KeyRegistered: client_events.key_registered,
    events.Claim: client_events.claim,
    events.ClaimAbandoned: client_events.claim_abandoned,
    events.LeaseReleased: client_events.lease_released,
    events.Answered: client_events.answered,
    events.KeepWarm: client_events.warm,
    events.SlotStarted: process_events.slot_started,
    events.SlotStartFailed: process_events.slot_start_failed,
    events.SlotDied: process_events.slot_has_died,
    events.SlotSpent: process_events.slot_spent,
    events.SlotGone: process_events.slot_gone,
    events.SeatMade: process_events.seat_made,
    events.SeatOpened: process_events.seat_opened,
    events.SeatOpenFailed: process_events.seat_open_failed,
    events.SeatClosed: process_events.seat_closed,
    events.SeatBroken: process_events.seat_broken,
    events.MemorySampled: process_events.memory_sampled,
    events.ProbeAnswered: process_events.probe_answered,
    events.ProbeMissed: process_events.probe_missed,
    events.Pause: operator_events.pause,
    events.Resume: operator_events.resume,
    events.DrainKey: operator_events.drain_key,
    events.StopWarming: operator_events.cool,
    events.LimitsChanged: operator_events.limits_changed,
    events.Recycle: operator_events.recycle,
    events.Kill: operator_events.kill,
    events.Reconnect: operator_events.reconnect,
    events.Tick: operator_events.tick,
    events.Shutdown: operator_events.shutdown,
}


def _record(event: events.CoreEvent, state: PoolState) -> KeyState | None:
    recorder = _RECORDERS.get(type(event))
    if recorder is None:
        raise TypeError(f"not an event of the pool: {event!r}")
    return recorder(event, state)
