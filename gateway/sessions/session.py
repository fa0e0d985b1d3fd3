"""A conversation and its single running turn. `run` is the line of a turn; everything else here serves it.

Rules:
- Turns run one after another, in the order they came; the queue is bounded.
- A turn ends exactly once, whatever happens, and says how.
- Nothing is retried once the prompt has left.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence

from ostler.bridge.calls import CallResult
from ostler.gateway.correlation import on_behalf_of
from ostler.gateway.errors import GatewayError
from ostler.gateway.sessions.ask import Output
from ostler.gateway.sessions.calls import ALIVE, READY, Desk
from ostler.gateway.sessions.errors import OutputsMissing, SessionQueueFull
from ostler.gateway.sessions.faults import fault
from ostler.gateway.sessions.house import House
from ostler.gateway.sessions.ledger import Ledger
from ostler.gateway.sessions.outcome import Outcome, Status, Stop, failed, outcome_of, stopped
from ostler.gateway.sessions.prompt import compose
from ostler.gateway.sessions.reports import TurnReport
from ostler.gateway.sessions.scribe import Nobody, Scribe
from ostler.gateway.sessions.seat import Seat
from ostler.gateway.sessions.seating import Seating
from ostler.gateway.sessions.turn import Continuation, Turn
from ostler.pool.errors import PoolError
from ostler.pool.events import Finished, Other
from ostler.pool.turn import Turn as AgentTurn

log = logging.getLogger(__name__)

SIGNS_OF_LIFE = 8
"""Per inactivity limit, while the client works on a call."""


class Session:
    """Made and kept by `Sessions`."""

    def __init__(self, session_id: str, owner: str, house: House, rested: Callable[["Session"], None]) -> None:
        self.id = session_id
        self.owner = owner
        self.seating = Seating(session_id, owner, house, self.release_seat)
        self.turn: Turn | None = None
        self._house = house
        self._ledger = Ledger(session_id, owner, house)
        self._rested = rested
        self._queue: deque[Turn] = deque()
        self._working = False

    @property
    def busy(self) -> bool:
        """Whether a turn runs or waits."""
        return self._working or bool(self._queue)

    def check_room(self) -> None:
        """Raise `SessionQueueFull` where `submit` would."""
        if len(self._queue) >= self._house.settings.queue_max:
            raise SessionQueueFull(self.id, len(self._queue))

    def submit(self, turn: Turn) -> None:
        """Run it when those before it are done. A turn that only waits for its client makes way."""
        self.check_room()
        self._queue.append(turn)
        if self.turn is not None and self.turn.parked:
            self.turn.stop(Stop.SUPERSEDED)
        if not self._working:
            self._working = True
            self._house.crew.start(self._work(), f"session {self.id}")

    def check_outputs(self, call_ids: Sequence[str]) -> None:
        """Raise `OutputsMissing` unless these answer every call the client was handed."""
        turn = self.turn
        missing = turn.desk.missing(call_ids) if turn is not None and turn.desk is not None else []
        if missing:
            raise OutputsMissing(missing)

    def resume(self, scribe: Scribe, outputs: Sequence[Output]) -> Turn | None:
        """Let the parked turn go on with these results. None: there is none any more, so it must be replayed."""
        turn = self.turn
        if turn is None or turn.next is None or not turn.parked:
            return None
        if turn.agent is None or turn.agent.finished is not None:
            turn.next.set_result(None)
            return None
        self.check_outputs([output.call_id for output in outputs])
        turn.next.set_result(Continuation(scribe, outputs))
        return turn

    def stop_all(self, reason: Stop) -> None:
        """Stop the running turn and those that wait."""
        for turn in [*self._queue, *([self.turn] if self.turn else [])]:
            turn.stop(reason)

    def release_seat(self) -> None:
        """Give the seat back between turns; the next turn brings the agent up to date again."""
        if self.turn is None:
            self.seating.rest()
            self._rested(self)

    # --- the line of a turn ---

    async def run(self, turn: Turn) -> None:
        """Remember the question, take a seat, ask, listen, finish."""
        turn.timings.begin()
        with on_behalf_of(turn.origin, session_id=self.id, turn_id=turn.id):
            outcome = await self._answer(turn)
            try:
                await self._finish(turn, outcome)
            finally:
                turn.over.set()

    async def _answer(self, turn: Turn) -> Outcome:
        try:
            async with asyncio.timeout(None) as turn.scope:
                if turn.stopped is not None:
                    return stopped(turn.stopped)
                last = await self._ledger.remember(turn)
                turn.timings.store()
                seat = await self.seating.attach(turn, last)
                turn.timings.sit()
                agent = await self._prompt(turn, seat, last)
            return await self._listen(turn, agent)
        except TimeoutError:
            if turn.stopped is None:
                raise
            return stopped(turn.stopped)
        except (PoolError, GatewayError) as error:
            log.warning("turn %s of session %s failed: %s", turn.id, self.id, error)
            return fault(error)
        except Exception:
            log.exception("turn %s of session %s failed by a fault of the gateway", turn.id, self.id)
            return failed("internal_error", "the gateway failed; its log says why")

    async def _prompt(self, turn: Turn, seat: Seat, last: int) -> AgentTurn:
        """Say what the agent does not know yet, and ask."""
        ask, house, timings = turn.ask, self._house, turn.timings
        fresh = seat.knows != last or ask.history is not None
        history = ask.history or ()
        if fresh and ask.history is None and last:
            history = await self._ledger.history(turn)
        wanted = ask.instructions or await self._ledger.instructions()
        untold = wanted if wanted and wanted != seat.instructions else None
        parts, left_out = compose(ask, history, house.providers[ask.key.provider], fresh=fresh, instructions=untold)
        if left_out:
            log.warning("session %s: %d old messages do not fit the prompt and are left out", self.id, left_out)
        turn.desk = Desk(turn.put, self._call_id, house.settings.call_gather, parallel=ask.parallel_calls)
        began = house.clock()
        seat.offer(turn.desk.dispatch)
        timings.bridge = house.clock() - began
        timings.prompt()
        agent = await seat.lease.prompt(parts)
        if not isinstance(agent, AgentTurn):
            raise TypeError("sessions run on the pool's own loop")
        seat.instructions = untold or seat.instructions
        turn.ride(agent)
        return agent

    async def _listen(self, turn: Turn, agent: AgentTurn) -> Outcome:
        """Every event, to the end."""
        limit = self._house.settings.turn_limit
        timer = limit and asyncio.get_running_loop().call_later(limit, turn.stop, Stop.TIME)
        try:
            async with agent:
                async for event in agent:
                    kind = type(event)
                    if kind is Finished:
                        return outcome_of(event, turn.stopped)  # type: ignore[arg-type] # narrowed by kind
                    if kind is not Other:
                        turn.take(event)
                    elif event.kind == READY:  # type: ignore[union-attr] # narrowed by kind
                        await self._hand_over(turn)
                    elif event.kind != ALIVE:  # type: ignore[union-attr] # narrowed by kind
                        turn.take(event)
            raise RuntimeError("an agent's turn ended without an end")
        finally:
            if timer:
                timer.cancel()

    async def _finish(self, turn: Turn, outcome: Outcome) -> None:
        """The end, once: durable, then told."""
        if turn.desk is not None:
            turn.desk.close("the turn is over")
        facts = turn.timings.report(self.id, turn.id)
        report = TurnReport(self.id, turn.id, turn.ask.key, outcome, facts, turn.timings, turn.origin)
        self._house.turns.turn_ended(report)
        if turn.agent is None:
            await self._ledger.take_back(turn)
        last = await self._ledger.close_answer(turn, outcome, [])
        self.seating.settle(turn, outcome, last)
        turn.scribe.publish()

    # --- its parts ---

    async def _work(self) -> None:
        try:
            while self._queue:
                self.turn = self._queue.popleft()
                try:
                    await self.run(self.turn)
                finally:
                    self.turn = None
        finally:
            self._working = False
            self._rested(self)

    async def _hand_over(self, turn: Turn) -> None:
        """Give the client the calls that wait, end this answer, and go on with the request that brings the results."""
        desk = turn.desk
        calls = desk.hand_over() if desk is not None else []
        if desk is None or not calls:
            return
        turn.timings.tool_called()
        coming = turn.next = asyncio.get_running_loop().create_future()
        await self._ledger.close_answer(turn, Outcome(Status.COMPLETED), calls)
        turn.scribe.publish()
        came = await self._client(coming, desk)
        turn.next = None
        if came is None:
            desk.close(
                "the turn was stopped" if turn.stopped else "the client did not answer the function call in time"
            )
            turn.scribe = Nobody()
            return
        turn.scribe = came.scribe
        await self._ledger.take_results(turn, came)
        for output in came.outputs:
            desk.answer(output.call_id, CallResult(tuple(output.content)))
        desk.announce()

    async def _client(self, coming: "asyncio.Future[Continuation | None]", desk: Desk) -> Continuation | None:
        """The client's next request, within the deadline. The agent is waiting for us meanwhile, it is not silent."""
        settings = self._house.settings
        step = settings.turn_inactivity / SIGNS_OF_LIFE
        loop = asyncio.get_running_loop()
        deadline = loop.time() + settings.client_tool_deadline
        while not coming.done() and (left := deadline - loop.time()) > 0:
            await asyncio.wait([coming], timeout=min(step, left))
            desk.still_here()
        return coming.result() if coming.done() else None

    def _call_id(self) -> str:
        return self._house.ids.make("call")
