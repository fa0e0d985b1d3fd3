"""Hands an agent's calls to the client of its turn, and the client's results back to the agent.

Rules:
- A handover ends the present answer, durably. The turn stays, and continues with the request that brings the results.
  If no such request comes in time, the calls count as unanswered and the turn goes on without a client.
- A permission request that was settled without its client is closed: a late answer decides nothing.
"""

import asyncio
from collections.abc import Sequence

from ostler.bridge.calls import CallResult
from ostler.gateway.model.outcome import StopCause, TurnOutcome, TurnStatus
from ostler.gateway.turns.answer import AnswerStream
from ostler.gateway.turns.deps import SessionDeps
from ostler.gateway.turns.pending_calls import ALWAYS, AskedCall, PendingCalls
from ostler.gateway.turns.turn import Continuation, Turn
from ostler.gateway.turns.turn_store import TurnStore

SIGNS_OF_LIFE = 8
"""How many signs of life are sent per inactivity limit while the client works on a call."""


class CallHandover:
    """Hands over the calls of one session's turns."""

    def __init__(self, deps: SessionDeps, turn_store: TurnStore) -> None:
        self._deps = deps
        self._turn_store = turn_store

    async def to_client(self, turn: Turn) -> None:
        """Hand the waiting calls to the client, end this answer, and continue with the request that brings the
        results."""
        pending = turn.pending_calls
        calls = pending.hand_over() if pending is not None else []
        if pending is None or not calls:
            return
        turn.timings.tool_called()
        coming = turn.next = asyncio.get_running_loop().create_future()
        await self._turn_store.close_answer(turn, TurnOutcome(TurnStatus.COMPLETED), calls)
        turn.answer.publish()
        came = await self._client(coming, pending, self._patience(calls))
        turn.next = None
        if came is None:
            turn.answer = AnswerStream(turn.answer_id)
            if turn.stopped is StopCause.DRAIN:  # The next run of the gateway asks again.
                turn.left_open = True
            else:
                await self._turn_store.give_up(calls)
            pending.close("the turn was stopped" if turn.stopped else "the client did not answer in time")
            return
        turn.answer = came.answer
        answered = {output.call_id for output in came.outputs}
        await self._turn_store.give_up([call for call in calls if call.call_id not in answered])
        await self._turn_store.take_results(turn, came)
        for output in came.outputs:
            granted = ALWAYS if output.always else CallResult(tuple(output.content), is_error=output.refused)
            pending.answer(output.call_id, granted)
        pending.announce()

    async def _client(
        self, coming: "asyncio.Future[Continuation | None]", pending: PendingCalls, patience: float
    ) -> Continuation | None:
        """Return the client's next request, or None if none comes within the deadline.

        Signs of life keep the turn's inactivity limit from running: the agent waits for us, so it is not silent.
        """
        settings = self._deps.settings
        step = settings.turn_inactivity / SIGNS_OF_LIFE
        loop = asyncio.get_running_loop()
        deadline = loop.time() + patience
        while not coming.done() and (left := deadline - loop.time()) > 0:
            await asyncio.wait([coming], timeout=min(step, left))
            pending.still_here()
        return coming.result() if coming.done() else None

    def _patience(self, calls: Sequence[AskedCall]) -> float:
        """Return the seconds that the client has for these calls: the shortest deadline among their kinds."""
        kinds = {call.permission is not None for call in calls}
        limits = {True: self._deps.permits.deadline, False: self._deps.settings.client_tool_deadline}
        return min(limits[kind] for kind in kinds)
