"""Every session that lives in this process: found by id, made when it is asked for, let go when it rests.

Rules:
- A session is in the table while it has a turn, a queue or a seat; whatever else is known of it is in the store.
- A seat between turns is given up for a turn that can get none otherwise.
- Seats are bounded: the session that rested longest gives its seat back first, and every seat after a while of quiet. A
  session in mid-turn is never touched, so many running ones may hold more than the bound; that is logged.
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
from ostler.gateway.turns.answer_sink import AnswerSink
from ostler.gateway.turns.deps import SessionDeps
from ostler.gateway.turns.seat_eviction import LOOKING, first_to_go
from ostler.gateway.turns.session import Reserved, Session
from ostler.gateway.turns.timings import TurnTimings
from ostler.gateway.turns.turn import Turn

log = logging.getLogger(__name__)
LOOK_AGAIN = 0.25
"""Seconds of a drain between two looks for turns that have come to wait for their client."""


class Sessions:
    """The table."""

    def __init__(self, house: SessionDeps) -> None:
        self.house = house
        self._table: dict[str, Session] = {}
        self._resting: OrderedDict[str, asyncio.TimerHandle] = OrderedDict()
        """Sessions with a seat and no turn, the longest rest first, and when their seat is given back."""
        self._at_work: set[str] = set()
        """Sessions whose turns hold a seat, or will."""
        self._draining = False
        self._calm = asyncio.Event()
        self._looked = 0.0

    def __len__(self) -> int:
        return len(self._table)

    @property
    def running(self) -> int:
        """Sessions with a turn."""
        return sum(1 for session in self._table.values() if session.busy)

    @property
    def draining(self) -> bool:
        """Whether new work is refused."""
        return self._draining

    def of(self, session_id: str, owner: str) -> Session:
        """The session, which exists in the store."""
        session = self._table.get(session_id)
        if session is None:
            session = self._table[session_id] = Session(session_id, owner, self.house, self._rested, self._make_way)
        return session

    def in_use(self) -> list[str]:
        """Sessions that are at work or hold a seat."""
        return [each.id for each in self._table.values() if each.busy or each.seating.seat is not None]

    def forget(self, session_id: str) -> None:
        """It was deleted; one that is in use is let go at the end of its use."""
        session = self._table.get(session_id)
        if session is not None:
            session.retire()
            if not session.busy:
                self._table.pop(session_id, None)

    def find(self, session_id: str) -> Session | None:
        """The session if it is at work or holds a seat."""
        return self._table.get(session_id)

    def start(
        self, session: Session, ask: Ask, turn_id: str, scribe: AnswerSink, place: Reserved | None = None
    ) -> Turn:
        """Run a turn, or queue it, at its reserved place if it has one. Raises `Draining`, `SessionQueueFull`."""
        self.check_open()
        turn = Turn(turn_id, ask, scribe, TurnTimings(self.house.clock))
        if place is None:
            session.submit(turn)
        else:
            session.fill(place, turn)
        self._at_its_work(session)
        self._make_room()
        return turn

    def reserve(self, session_id: str, owner: str, after: str) -> tuple[Session, Reserved] | None:
        """A place in a session for a request that goes on from this response, to be given to `start` or back by
        `Session.fill`; None where another request goes on from it. Raises `Draining`, `SessionQueueFull`."""
        self.check_open()
        session = self.of(session_id, owner)
        place = session.reserve(after)
        if place is None:
            return None
        self._at_its_work(session)
        return session, place

    def _at_its_work(self, session: Session) -> None:
        self._wake(session.id)
        self._at_work.add(session.id)

    @contextlib.asynccontextmanager
    async def held(self, session: Session) -> AsyncIterator[None]:
        """Keep turns away from a session while its transcript is changed. Raises `SessionBusy`.

        Its seat is at work meanwhile: what rests is what may be given up, and this may not.
        """
        async with session.held():
            self._at_its_work(session)
            yield

    def resume(self, session_id: str, scribe: AnswerSink, outputs: list[CallOutput], answer_id: str) -> Turn | None:
        """Go on with a parked turn; None where it is no more. Raises `CallsAnswered`."""
        self.check_open()
        session = self._table.get(session_id)
        return None if session is None else session.resume(scribe, outputs, answer_id)

    def waiting_for(self, call_id: str, owner: str) -> str | None:
        """The session of this owner whose parked turn waits for the result of this call."""
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
        """Whether the turn that runs has asked this and does not wait for the answer any more."""
        session = self._table.get(session_id)
        desk = None if session is None or session.turn is None else session.turn.pending_calls
        return desk is not None and desk.settled(call_id)

    def check_outputs(self, session_id: str, call_ids: list[str]) -> None:
        """Raise `OutputsMissing` where `resume` would."""
        session = self._table.get(session_id)
        if session is not None:
            session.check_outputs(call_ids)

    def check_open(self) -> None:
        """Raise `Draining` where `start` would."""
        if self._draining:
            raise Draining

    async def drain(self, seconds: float, patience: float = 5.0) -> None:
        """Let running turns end, then stop them, then let everything go."""
        self._draining = True
        if seconds <= 0 or not await self._quiet(seconds):
            self._stop_all(StopCause.DRAIN)
            await self._quiet(patience)
        for session in tuple(self._table.values()):
            self._let_go(session)

    def close(self) -> None:
        """Forget the timers."""
        for timer in self._resting.values():
            timer.cancel()
        self._resting.clear()

    async def _quiet(self, seconds: float) -> bool:
        """Wait until no turn runs."""
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
        """A turn that waits for its client would wait the whole drain for a request that we refuse."""
        for session in self._table.values():
            if session.turn is not None and session.turn.parked:
                session.turn.stop(StopCause.DRAIN)

    def _stop_all(self, stop: StopCause) -> None:
        for session in tuple(self._table.values()):
            session.stop_all(stop)

    def _wake(self, session_id: str) -> None:
        timer = self._resting.pop(session_id, None)
        if timer is not None:
            timer.cancel()

    def _rested(self, session: Session) -> None:
        """A session has less to do now. It rests when it has nothing to do at all, and is heard of again then."""
        if session.busy:
            return
        self._wake(session.id)
        self._at_work.discard(session.id)
        if session.retired:
            session.seating.forget()
        if session.seating.seat is None or self._draining:
            self._let_go(session)
        else:
            loop = asyncio.get_running_loop()
            self._resting[session.id] = loop.call_later(self.house.settings.seat_idle, self._let_go, session)
            self._make_room()
        self._calm.set()

    def _make_way(self) -> None:
        """Somebody waits for a seat: where only seats between turns are in the way, one of them is given up.

        However many wait, the pool is looked at no more often than this.
        """
        now = self.house.clock()
        if not self._resting or now - self._looked < LOOKING:
            return
        self._looked = now
        resting = (self._table[each] for each in self._resting)
        leases = {session.seating.seat.lease.id: session for session in resting if session.seating.seat is not None}
        going = first_to_go(self.house.pool.snapshot().core, leases)
        if going is not None:
            self._let_go(leases[going])

    def _make_room(self) -> None:
        """Hold as few seats as we may; those of running turns are needed, however many they are."""
        most = self.house.settings.seats_max
        while self._resting and len(self._resting) + len(self._at_work) > most:
            oldest = next(iter(self._resting))
            self._let_go(self._table[oldest])
        if len(self._at_work) > most:
            log.info("%d sessions have a turn and a seat each, above gateway.seats_max (%d)", len(self._at_work), most)

    def _let_go(self, session: Session) -> None:
        self._wake(session.id)  # in any case: who makes room goes through those that rest until there is none
        if session.busy:
            return
        session.let_go()
        self._table.pop(session.id, None)
        if session.seating.remembers and not self._draining:
            self._table[session.id] = session  # behind all that were let go before it
            self._forget()

    def _forget(self) -> None:
        """What is only remembered is bounded: the one that was let go first is forgotten first."""
        if len(self._table) > self.house.settings.sessions_max:
            idle = (each for each in self._table.values() if not each.busy and each.seating.seat is None)
            self._table.pop(next(idle).id)
