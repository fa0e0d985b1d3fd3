"""Every session that lives in this process: found by id, created on demand, removed when idle.

Rules:
- A session is in the table while it has a turn, a queue, a seat or a remembered seat; everything else is in the store.
- An idle session's seat is released for a turn that can get a seat in no other way.
- Seats are bounded: the session that has been idle longest releases its seat first, and every seat is released after a
  time without turns. A session with a running turn is never touched, so many running ones may exceed the bound; that is
  logged.
- Draining: no new turns; running ones may end within the deadline, then they are stopped and stored as incomplete.
"""

import asyncio
import contextlib
import logging
from collections import OrderedDict
from collections.abc import AsyncIterator

from ostler.gateway.model.ask import Ask, CallOutput
from ostler.gateway.model.errors import Draining
from ostler.gateway.model.outcome import StopCause
from ostler.gateway.turns.answer import AnswerStream
from ostler.gateway.turns.deps import SessionDeps
from ostler.gateway.turns.seat_eviction import LOOKING, first_to_go
from ostler.gateway.turns.session import Reserved, Session
from ostler.gateway.turns.timings import TurnTimings
from ostler.gateway.turns.turn import Turn

log = logging.getLogger(__name__)
LOOK_AGAIN = 0.25
"""Seconds between two checks, while draining, for turns that have begun to wait for their client."""


class Sessions:
    """The table of sessions, with the limits on their seats. One per gateway."""

    def __init__(self, deps: SessionDeps) -> None:
        self.deps = deps
        self._table: dict[str, Session] = {}
        self._resting: OrderedDict[str, asyncio.TimerHandle] = OrderedDict()
        """Timers of sessions with a seat and no turn, the longest idle first; a timer releases the seat."""
        self._at_work: set[str] = set()
        """Sessions whose turns hold a seat, or will."""
        self._draining = False
        self._calm = asyncio.Event()
        self._looked = 0.0

    def __len__(self) -> int:
        return len(self._table)

    @property
    def running(self) -> int:
        """The number of sessions with a running or waiting turn."""
        return sum(1 for session in self._table.values() if session.busy)

    @property
    def draining(self) -> bool:
        """Whether new work is refused."""
        return self._draining

    def of(self, session_id: str, owner: str) -> Session:
        """Return the session, which must exist in the store; create its object if there is none."""
        session = self._table.get(session_id)
        if session is None:
            session = self._table[session_id] = Session(session_id, owner, self.deps, self._rested, self._make_way)
        return session

    def in_use(self) -> list[str]:
        """Return the ids of sessions that are busy or hold a seat."""
        return [each.id for each in self._table.values() if each.busy or each.seat_manager.seat is not None]

    def forget(self, session_id: str) -> None:
        """The session was deleted: stop its turns, and drop it now or, if it is busy, at the end of its work."""
        session = self._table.get(session_id)
        if session is not None:
            session.retire()
            if not session.busy:
                self._table.pop(session_id, None)

    def find(self, session_id: str) -> Session | None:
        """Return the session if it is in the table: busy, with a seat, or with a remembered one."""
        return self._table.get(session_id)

    def start(self, session: Session, ask: Ask, answer: AnswerStream, place: Reserved | None = None) -> Turn:
        """Run a turn or queue it, at its reserved place if it has one. Raises `Draining`, `SessionQueueFull`."""
        self.check_open()
        turn = Turn(answer.id, ask, answer, TurnTimings(self.deps.clock))
        if place is None:
            session.submit(turn)
        else:
            session.fill(place, turn)
        self._at_its_work(session)
        self._make_room()
        return turn

    def reserve(self, session_id: str, owner: str, after: str) -> tuple[Session, Reserved] | None:
        """Reserve a place for a request that continues from this response. The caller passes it to `start`, or gives it
        back by `Session.fill`. None if another request continues from it. Raises `Draining`, `SessionQueueFull`."""
        self.check_open()
        session = self.of(session_id, owner)
        place = session.reserve(after)
        if place is None:
            return None
        self._at_its_work(session)
        return session, place

    def _at_its_work(self, session: Session) -> None:
        self._stop_timer(session.id)
        self._at_work.add(session.id)

    @contextlib.asynccontextmanager
    async def held(self, session: Session) -> AsyncIterator[None]:
        """Keep turns away from a session while its transcript is changed. Raises `TurnRunning`.

        Its seat counts as busy meanwhile: idle seats may be released, and this one must not be.
        """
        async with session.held():
            self._at_its_work(session)
            yield

    def resume(self, session_id: str, answer: AnswerStream, outputs: list[CallOutput]) -> Turn | None:
        """Continue a parked turn; None if it does not exist any more. Raises `Draining`, `CallsAnswered`,
        `OutputsMissing`."""
        self.check_open()
        session = self._table.get(session_id)
        return None if session is None else session.resume(answer, outputs)

    def waiting_for(self, call_id: str, owner: str) -> str | None:
        """Return the session of this owner whose parked turn waits for the result of this call."""
        for session in self._table.values():
            turn = session.turn
            if (
                turn is not None
                and turn.parked
                and turn.pending_calls is not None
                and call_id in turn.pending_calls.calls
            ):
                return session.id if session.owner == owner else None
        return None

    def settled(self, session_id: str, call_id: str) -> bool:
        """Whether the running turn has handed over this call and needs no answer any more."""
        session = self._table.get(session_id)
        pending = None if session is None or session.turn is None else session.turn.pending_calls
        return pending is not None and pending.settled(call_id)

    def check_outputs(self, session_id: str, call_ids: list[str]) -> None:
        """Raise `OutputsMissing` if `resume` would."""
        session = self._table.get(session_id)
        if session is not None:
            session.check_outputs(call_ids)

    def check_open(self) -> None:
        """Raise `Draining` if `start` would."""
        if self._draining:
            raise Draining

    async def drain(self, seconds: float, patience: float = 5.0) -> None:
        """Let running turns end within `seconds`, then stop them, then release all sessions."""
        self._draining = True
        if seconds <= 0 or not await self._wait_until_quiet(seconds):
            self._stop_all(StopCause.DRAIN)
            await self._wait_until_quiet(patience)
        for session in tuple(self._table.values()):
            self._let_go(session)

    def close(self) -> None:
        """Cancel the timers of idle sessions."""
        for timer in self._resting.values():
            timer.cancel()
        self._resting.clear()

    async def _wait_until_quiet(self, seconds: float) -> bool:
        """Wait until no turn runs. False if that takes longer than `seconds`."""
        try:
            async with asyncio.timeout(seconds):
                while self.running:
                    self._stop_parked()
                    self._calm.clear()
                    with contextlib.suppress(TimeoutError):
                        async with asyncio.timeout(LOOK_AGAIN):
                            await self._calm.wait()
        except TimeoutError:
            log.warning("%d turns still run after %.1f s", self.running, seconds)
            return False
        return True

    def _stop_parked(self) -> None:
        """Stop turns that wait for their client: they would wait for the whole drain for a request that is refused by
        now."""
        for session in self._table.values():
            if session.turn is not None and session.turn.parked:
                session.turn.stop(StopCause.DRAIN)

    def _stop_all(self, stop: StopCause) -> None:
        for session in tuple(self._table.values()):
            session.stop_all(stop)

    def _stop_timer(self, session_id: str) -> None:
        timer = self._resting.pop(session_id, None)
        if timer is not None:
            timer.cancel()

    def _rested(self, session: Session) -> None:
        """A session has less to do now. If it is idle, start its timer or remove it; a busy one reports again."""
        if session.busy:
            return
        self._stop_timer(session.id)
        self._at_work.discard(session.id)
        if session.retired:
            session.seat_manager.forget()
        if session.seat_manager.seat is None or self._draining:
            self._let_go(session)
        else:
            loop = asyncio.get_running_loop()
            self._resting[session.id] = loop.call_later(self.deps.settings.seat_idle, self._let_go, session)
            self._make_room()
        self._calm.set()

    def _make_way(self) -> None:
        """A turn waits for a seat: if only idle seats are in its way, release one of them.

        However many turns wait, the pool is inspected at most once per `LOOKING` seconds.
        """
        now = self.deps.clock()
        if not self._resting or now - self._looked < LOOKING:
            return
        self._looked = now
        resting = (self._table[each] for each in self._resting)
        leases = {
            session.seat_manager.seat.lease.id: session for session in resting if session.seat_manager.seat is not None
        }
        going = first_to_go(self.deps.pool.snapshot().core, leases)
        if going is not None:
            self._let_go(leases[going])

    def _make_room(self) -> None:
        """Release idle seats until `seats_max` is kept. Seats of running turns are needed, however many there are."""
        most = self.deps.settings.seats_max
        while self._resting and len(self._resting) + len(self._at_work) > most:
            oldest = next(iter(self._resting))
            self._let_go(self._table[oldest])
        if len(self._at_work) > most:
            log.info("%d sessions have a turn and a seat each, above gateway.seats_max (%d)", len(self._at_work), most)

    def _let_go(self, session: Session) -> None:
        self._stop_timer(
            session.id
        )  # Always, also if busy: `_make_room` loops over idle sessions until there are none.
        if session.busy:
            return
        session.let_go()
        self._table.pop(session.id, None)
        if session.seat_manager.remembers and not self._draining:
            self._table[session.id] = session  # Behind all sessions that were let go earlier.
            self._forget()

    def _forget(self) -> None:
        """Bound the sessions that are only remembered: the one that was let go first is dropped first."""
        if len(self._table) > self.deps.settings.sessions_max:
            idle = (each for each in self._table.values() if not each.busy and each.seat_manager.seat is None)
            self._table.pop(next(idle).id)
