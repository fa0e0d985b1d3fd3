"""A conversation and its single running turn. `run` is the line of a turn; everything else here serves it.

Rules:
- Turns run one after another, in the order they came; the queue is bounded.
- The user's message is durable before the agent hears it, and the answer's end before the client does.
- A turn ends exactly once, whatever happens. A turn that never reached the agent leaves no message behind.
- Nothing is retried once the prompt has left.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable

from ostler.bridge.calls import CallResult
from ostler.gateway.errors import GatewayError, StoreError
from ostler.gateway.records import MessageRecord, NewMessage, ParkedCall, Role, SessionChange, TurnCommit
from ostler.gateway.sessions.ask import Ask, Output
from ostler.gateway.sessions.calls import ALIVE, READY, AskedCall, Desk
from ostler.gateway.sessions.errors import OutputsMissing, SessionQueueFull
from ostler.gateway.sessions.faults import fault
from ostler.gateway.sessions.house import House
from ostler.gateway.sessions.outcome import Outcome, Status, Stop, outcome_of, stopped
from ostler.gateway.sessions.prompt import compose, lines_of
from ostler.gateway.sessions.scribe import Nobody, Scribe
from ostler.gateway.sessions.seat import Memory, Seat
from ostler.gateway.sessions.turn import Continuation, Turn
from ostler.pool.errors import PoolError
from ostler.pool.events import Finished, Other, TurnEvent
from ostler.pool.ports import ToolSet
from ostler.pool.turn import Turn as AgentTurn

log = logging.getLogger(__name__)

SIGNS_OF_LIFE = 8
"""Per inactivity limit, while the client works on a call."""


class Session:
    """Made and kept by `Sessions`."""

    def __init__(self, session_id: str, owner: str, house: House, rested: Callable[["Session"], None]) -> None:
        self.id = session_id
        self.owner = owner
        self._house = house
        self._rested = rested
        self._queue: deque[Turn] = deque()
        self._working = False
        self._memory: Memory | None = None
        self._instructions: str | None = None
        self.seat: Seat | None = None
        self.turn: Turn | None = None

    @property
    def busy(self) -> bool:
        """Whether a turn runs or waits."""
        return self._working or bool(self._queue)

    @property
    def remembers(self) -> bool:
        """Whether it knows of a session that its agent could load again."""
        return self._memory is not None

    def stop_all(self, reason: Stop) -> None:
        """Stop the running turn and those that wait."""
        for turn in [*self._queue, *([self.turn] if self.turn else [])]:
            turn.stop(reason)

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

    def resume(self, scribe: Scribe, outputs: list[Output]) -> Turn | None:
        """Let the parked turn go on with these results. None: there is none any more, so it must be replayed."""
        turn = self.turn
        if turn is None or turn.desk is None or turn.next is None or not turn.parked:
            return None
        if turn.agent is None or turn.agent.finished is not None:
            turn.next.set_result(None)
            return None
        self.check_outputs([output.call_id for output in outputs])
        turn.next.set_result(Continuation(scribe, outputs))
        return turn

    def check_outputs(self, call_ids: list[str]) -> None:
        """Raise `OutputsMissing` unless these answer every call the client was handed."""
        turn = self.turn
        missing = turn.desk.missing(call_ids) if turn is not None and turn.desk is not None else []
        if missing:
            raise OutputsMissing(missing)

    def release_seat(self) -> None:
        """Give the seat back between turns; the next turn brings the agent up to date again."""
        if self.seat is not None and self.turn is None:
            self._memory = self.seat.memory()
            self._leave_seat()

    # --- the line of a turn ---

    async def run(self, turn: Turn) -> None:
        """Remember the question, take a seat, ask, listen, finish."""
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
                last = await self._remember(turn)
                seat = await self._attach(turn, last)
                agent = await self._prompt(turn, seat, last)
            return await self._listen(turn, agent)
        except TimeoutError:
            if turn.stopped is None:
                raise
            return stopped(turn.stopped)
        except (PoolError, GatewayError) as error:
            log.warning("turn %s of session %s failed: %s", turn.id, self.id, error)
            return fault(error)

    async def _remember(self, turn: Turn) -> int:
        """Make the question durable. The id of the message before it, 0 where there is none."""
        store, ask = self._house.store, turn.ask
        before = await store.history(self.id, last=1)
        if ask.instructions is not None and ask.instructions != self._instructions:
            await store.update_session(self.id, SessionChange(instructions=ask.instructions))
            self._instructions = ask.instructions
        brought = [NewMessage(role, [item], text) for role, text, item in ask.preface]
        asked = [NewMessage(Role.USER, ask.items, ask.text)] if ask.items else []
        ids = await store.append(self.id, [*brought, *asked])
        turn.asked = ids[0]
        record = turn.scribe.begin()
        if record is not None:
            await store.save_response(record)
        return before[-1].id if before else 0

    async def _attach(self, turn: Turn, last: int) -> Seat:
        """The session's own seat, if its agent knows what was said; else a fresh one."""
        ask, house = turn.ask, self._house
        if self.seat is not None and self.seat.serves(ask, last):
            turn.timings.pooled = self.seat.lease.pooled
            return self.seat
        if self.seat is not None and self.seat.lease.lost is not None:
            log.warning("session %s lost its agent and is replayed to another one: %s", self.id, self.seat.lease.lost)
        self.release_now()
        memory, self._memory = self._memory, None
        known = memory is not None and memory.knows == last and ask.history is None
        resume = memory.memo if memory and known and memory.provider == ask.key.provider else None
        tools = ToolSet(ask.tools) if ask.tools else None
        lease = await house.pool.lease(ask.key, tools=tools, owner=self.owner or self.id, resume=resume)
        provider = house.providers[ask.key.provider]
        seat = self.seat = Seat(lease, provider.follows_list_changed, ask.tools)
        if lease.restored:
            seat.knows = last
        turn.timings.waited, turn.timings.pooled, turn.timings.warmth = lease.waited, lease.pooled, lease.warmth
        house.crew.start(self._watch(seat), f"seat of {self.id}")
        return seat

    async def _prompt(self, turn: Turn, seat: Seat, last: int) -> AgentTurn:
        """Say what the agent does not know yet, and ask."""
        ask, house = turn.ask, self._house
        fresh = seat.knows != last or ask.history is not None
        history = ask.history
        if fresh and history is None:
            history = tuple(lines_of(before(await house.store.history(self.id), turn.asked))) if last else ()
        instructions = await self._untold(ask, seat)
        provider = house.providers[ask.key.provider]
        parts, left_out = compose(ask, history or (), provider, fresh=fresh, instructions=instructions)
        if left_out:
            log.warning("session %s: %d old messages do not fit the prompt and are left out", self.id, left_out)
        turn.desk = Desk(lambda event: self._put(turn, event), self._call_id, house.settings.call_gather)
        turn.desk.one_at_a_time = not ask.parallel_calls
        began = house.clock()
        seat.offer(ask.tools, turn.desk.dispatch, None)
        turn.timings.bridge = house.clock() - began
        turn.timings.prompt()
        agent = await seat.lease.prompt(parts)
        if not isinstance(agent, AgentTurn):
            raise TypeError("sessions run on the pool's own loop")
        seat.instructions = instructions or seat.instructions
        turn.agent = agent
        if turn.stopped is not None:
            agent.cancel()
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
        turn.timings.report(self.id, turn.id)
        if turn.agent is None:
            await self._take_back(turn)
        last = await self._close_answer(turn, outcome, [])
        self._settle_seat(turn, outcome, last)
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

    async def _close_answer(self, turn: Turn, outcome: Outcome, calls: list[AskedCall]) -> int | None:
        """Store the present answer; the id of its last message, None where nothing could be stored."""
        kept = turn.scribe.close(outcome, calls)
        text = turn.text
        turn.said.clear()
        reached = turn.agent is not None
        said = [NewMessage(Role.ASSISTANT, kept.items or message_items(text), text, turn.id)] if reached else []
        response_id = None if kept.response is None else kept.response.id
        now, deadline = self._house.wall(), self._house.wall() + self._house.settings.client_tool_deadline
        parked = [ParkedCall(c.call_id, self.id, response_id, c.name, c.arguments, deadline, now) for c in calls]
        try:
            ids = await self._house.store.commit_turn(
                TurnCommit(self.id, said, kept.response, kept.slug, self.owner, parked, kept.answer)
            )
        except StoreError as error:
            log.error("the end of turn %s of session %s is not stored: %s", turn.id, self.id, error)  # noqa: TRY400 - typed
            turn.scribe.close(fault(error), [])
            return None
        return ids[-1] if ids else 0

    async def _take_back(self, turn: Turn) -> None:
        """The agent never heard it, so the next turn must not find it in the conversation."""
        if turn.asked is None:
            return
        try:
            await self._house.store.deactivate_from(self.id, turn.asked)
        except GatewayError as error:
            log.warning("session %s keeps a message that was never sent: %s", self.id, error)

    def _settle_seat(self, turn: Turn, outcome: Outcome, last: int | None) -> None:
        """Keep the seat where its agent's memory and ours are the same."""
        seat = self.seat
        if seat is None:
            return
        keeps = self._house.providers[seat.lease.key.provider].keeps_cancelled_prompts
        heard = outcome.status is Status.COMPLETED or (outcome.status is not Status.FAILED and keeps)
        good = heard and last and turn.agent is not None and turn.ask.history is None
        seat.knows = last if good and last else 0
        if not good or seat.lease.move is not None or seat.lease.lost is not None:
            self._memory = seat.memory()
            self._leave_seat()

    async def _hand_over(self, turn: Turn) -> None:
        """Give the client the calls that wait, end this answer, and wait for the request with the results."""
        desk = turn.desk
        calls = desk.hand_over() if desk is not None else []
        if desk is None or not calls:
            return
        turn.timings.tool_called()
        loop = asyncio.get_running_loop()
        turn.next = loop.create_future()
        await self._close_answer(turn, Outcome(Status.COMPLETED), calls)
        turn.scribe.publish()
        came = await self._client(turn.next, desk)
        turn.next = None
        if came is None:
            why = "the client did not answer the function call in time"
            desk.close("the turn was stopped" if turn.stopped else why)
            turn.scribe = Nobody()
            return
        turn.scribe = came.scribe
        await self._take_results(desk, came)

    async def _take_results(self, desk: Desk, came: Continuation) -> None:
        """Store what the client found out, then let the agent have it."""
        record = came.scribe.begin()
        store = self._house.store
        await store.append(self.id, [NewMessage(Role.TOOL, [o.item], o.text) for o in came.outputs])
        if record is not None:
            await store.save_response(record)
        for output in came.outputs:
            await store.answer(output.call_id, output.text)
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

    async def _untold(self, ask: Ask, seat: Seat) -> str | None:
        """Instructions that hold and that this agent has not been given."""
        if self._instructions is None:
            record = await self._house.store.get_session(self.id)
            self._instructions = (record and record.instructions) or ""
        wanted = ask.instructions or self._instructions
        return wanted if wanted and wanted != seat.instructions else None

    def _put(self, turn: Turn, event: TurnEvent) -> None:
        if turn.agent is not None:
            turn.agent.put(event)

    def _call_id(self) -> str:
        return self._house.ids.make("call")

    async def _watch(self, seat: Seat) -> None:
        """An idle session leaves a process that is to be replaced at once; a busy one at the end of its turn."""
        await seat.lease.wait_moved()
        if self.seat is seat and self.turn is None:
            self.release_seat()
            self._rested(self)

    def release_now(self) -> None:
        """Give the seat up without a thought of coming back."""
        if self.seat is not None:
            self._leave_seat()

    def _leave_seat(self) -> None:
        if self.seat is not None:
            self.seat.release()
            self.seat = None


def message_items(text: str) -> list[dict[str, object]]:
    """An answer as it is stored where its face says nothing else."""
    part = {"type": "output_text", "text": text, "annotations": []}
    return [{"type": "message", "role": "assistant", "content": [part]}]


def before(messages: list[MessageRecord], message_id: int | None) -> list[MessageRecord]:
    """The messages older than this one."""
    return [message for message in messages if message_id is None or message.id < message_id]
