"""Where an agent's calls go over to the client of its turn, and the results come back.

Rules:
- What is handed over ends the present answer, durably; the turn stays, and goes on with the request that brings the
  results. A client that does not come back in time has answered nothing, and the turn goes on with nobody listening.
- A question for permission that was settled without its client is closed: a late answer decides nothing.
"""

import asyncio
from collections.abc import Sequence

from ostler.bridge.calls import CallResult
from ostler.gateway.model.outcome import StopCause, TurnOutcome, TurnStatus
from ostler.gateway.turns.answer_sink import DiscardingSink
from ostler.gateway.turns.deps import SessionDeps
from ostler.gateway.turns.pending_calls import ALWAYS, AskedCall, PendingCalls
from ostler.gateway.turns.turn import Continuation, Turn
from ostler.gateway.turns.turn_store import TurnStore

SIGNS_OF_LIFE = 8
"""Per inactivity limit, while the client works on a call."""


class CallHandover:
    """Of one session."""

    def __init__(self, house: SessionDeps, ledger: TurnStore) -> None:
        self._house = house
        self._ledger = ledger

    async def to_client(self, turn: Turn) -> None:
        """Give the client the calls that wait, end this answer, and go on with the request that brings the results."""
        desk = turn.pending_calls
        calls = desk.hand_over() if desk is not None else []
        if desk is None or not calls:
            return
        turn.timings.tool_called()
        coming = turn.next = asyncio.get_running_loop().create_future()
        await self._ledger.close_answer(turn, TurnOutcome(TurnStatus.COMPLETED), calls)
        turn.sink.publish()
        came = await self._client(coming, desk, self._patience(calls))
        turn.next = None
        if came is None:
            turn.sink = DiscardingSink()
            if turn.stopped is StopCause.DRAIN:  # our next life asks again
                turn.left_open = True
            else:
                await self._ledger.give_up(calls)
            desk.close("the turn was stopped" if turn.stopped else "the client did not answer in time")
            return
        turn.sink = came.scribe
        answered = {output.call_id for output in came.outputs}
        await self._ledger.give_up([call for call in calls if call.call_id not in answered])
        await self._ledger.take_results(turn, came)
        for output in came.outputs:
            granted = ALWAYS if output.always else CallResult(tuple(output.content), is_error=output.refused)
            desk.answer(output.call_id, granted)
        desk.announce()

    async def _client(
        self, coming: "asyncio.Future[Continuation | None]", desk: PendingCalls, patience: float
    ) -> Continuation | None:
        """The client's next request, within the deadline. The agent is waiting for us meanwhile, it is not silent."""
        settings = self._house.settings
        step = settings.turn_inactivity / SIGNS_OF_LIFE
        loop = asyncio.get_running_loop()
        deadline = loop.time() + patience
        while not coming.done() and (left := deadline - loop.time()) > 0:
            await asyncio.wait([coming], timeout=min(step, left))
            desk.still_here()
        return coming.result() if coming.done() else None

    def _patience(self, calls: Sequence[AskedCall]) -> float:
        """How long the client has for what it was handed."""
        kinds = {call.permission is not None for call in calls}
        limits = {True: self._house.permits.deadline, False: self._house.settings.client_tool_deadline}
        return min(limits[kind] for kind in kinds)
