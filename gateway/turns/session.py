"""A conversation and its single running turn. `run` is the course of a turn; everything else here serves it.

Rules:
- Turns run one after another, in the order of their arrival; the queue is bounded.
- A turn ends exactly once, however it fails, and its outcome says how.
- Nothing is retried once the prompt was sent.
"""

import asyncio
import logging
from collections import deque
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from functools import partial

from ostler.bridge.calls import CallResult
from ostler.bridge.offer import Offer
from ostler.bridge.session_facts import SessionFacts
from ostler.bridge.settings import SERVER_NAME
from ostler.gateway.model import continuity
from ostler.gateway.model.ask import CallOutput, HistoryLine
from ostler.gateway.model.continuity import Queue
from ostler.gateway.model.correlation import on_behalf_of
from ostler.gateway.model.errors import (
    CallsAnswered,
    GatewayError,
    OutputsMissing,
    SeatLost,
    SessionQueueFull,
    TurnRunning,
)
from ostler.gateway.model.outcome import StopCause, TurnOutcome, TurnStatus, failed, outcome_of, stopped, unasked
from ostler.gateway.model.permits import PermissionRule, kind_of, of_function
from ostler.gateway.model.session_context import SessionContext
from ostler.gateway.turns.answer import COPIES, AnswerStream
from ostler.gateway.turns.call_handover import SIGNS_OF_LIFE, CallHandover
from ostler.gateway.turns.deps import SessionDeps
from ostler.gateway.turns.faults import fault
from ostler.gateway.turns.host_events import CallsReady, CallsWaiting, HistoryCut, SeatToolsLost
from ostler.gateway.turns.pending_calls import ALWAYS, PendingCalls, Permission
from ostler.gateway.turns.prompt import compose
from ostler.gateway.turns.reports import TurnReport
from ostler.gateway.turns.seat import SeatManager, SessionSeat
from ostler.gateway.turns.toolset import NOTHING, SessionTools
from ostler.gateway.turns.turn import Continuation, Turn
from ostler.gateway.turns.turn_store import TurnStore
from ostler.pool.agent.turn import AgentTurn
from ostler.pool.errors import Phase, PoolError, TransportLost
from ostler.pool.events import Finished, PermissionAsked, Text, Thought, TurnEvent
from ostler.pool.permission import NO, YES, allow, deny, first_of
from ostler.pool.permission_facts import inside, is_edit, paths_of
from ostler.pool.ports import PermissionChoice
from ostler.process.probe import PATIENCE, BlockingProbe, ProbeFailed

log = logging.getLogger(__name__)


@dataclass(eq=False, slots=True)
class Reserved:
    """A place in the queue for a request that still has to check whether it belongs there."""

    coming: "asyncio.Future[Turn | None]"


class Session:
    """One conversation in this process: its queue, its running turn and its seat. Created and kept by `Sessions`."""

    def __init__(
        self,
        session_id: str,
        owner: str,
        deps: SessionDeps,
        rested: Callable[["Session"], None],
        make_way: Callable[[], None],
    ) -> None:
        self.id = session_id
        self.owner = owner
        self.seat_manager = SeatManager(
            session_id, owner, deps, left=self.release_seat, policy=self.decide, make_way=make_way
        )
        self.turn: Turn | None = None
        self.retired = False
        """Whether its conversation has moved on to another session."""
        self._deps = deps
        self._turn_store = TurnStore(session_id, owner, deps)
        self._handover = CallHandover(deps, self._turn_store)
        self._rested = rested
        self._tools: tuple[tuple[str, bool], SessionTools] | None = None
        """The provider and memory flag that the tools were chosen for, and the tools that are not the client's."""
        self._offered: tuple[str, ...] = ()
        """The names of all tools of the running turn, the gateway's own included."""
        self._granted: set[str] = set()
        """Kinds of permission requests that a person has granted for the whole session."""
        self._probe: BlockingProbe[bool] = BlockingProbe()
        self._queue: deque[Turn | Reserved] = deque()
        self._working = False
        self._leaving = 0
        """Turns that were stopped in the queue and whose clients are not told yet."""

    @property
    def busy(self) -> bool:
        """Whether a turn runs or waits."""
        return self._working or bool(self._queue) or self._leaving > 0

    @property
    def turns(self) -> list[Turn]:
        """The running turn and those that wait."""
        return [turn for turn in (self.turn, *self._queue) if isinstance(turn, Turn)]

    @property
    def waiting(self) -> int:
        """How many turns wait for the running one."""
        return len(self._queue)

    @property
    def queue(self) -> Queue:
        """What a request would have to wait for."""
        last = self._queue[-1] if self._queue else self.turn
        return Queue(self.busy, last.answer_id if isinstance(last, Turn) else None)

    def reserve(self, after: str) -> Reserved | None:
        """Reserve a place in the queue for a request that continues from this response; None if another request already
        does.

        Nothing that comes later runs before `fill`, so what the caller reads in between stays true. Raises
        `SessionQueueFull`.
        """
        if not continuity.joins(after, self.queue):
            return None
        self.check_room()
        place = Reserved(asyncio.get_running_loop().create_future())
        self._queue.append(place)
        self._start_work()
        return place

    def fill(self, place: Reserved, turn: Turn | None) -> None:
        """Run this turn at the reserved place; None gives the place back."""
        if turn is not None:
            self._admit(turn)
        if place not in self._queue:
            place.coming.set_result(turn)
        elif turn is None:
            self._queue.remove(place)
        else:
            self._queue[self._queue.index(place)] = turn
            turn.leave = partial(self._dismiss, turn)

    def check_room(self) -> None:
        """Raise `SessionQueueFull` if `submit` would."""
        if len(self._queue) >= self._deps.settings.queue_max:
            raise SessionQueueFull(self.id, len(self._queue))

    def retire(self) -> None:
        """Its conversation has moved on: stop what runs, and release the seat for good as soon as nothing runs.

        Does not wait for that. A turn submitted later, when the conversation returns to this session, starts afresh.
        """
        self.retired = True
        self.stop_all(StopCause.CLIENT)
        if not self.busy:
            self._rested(self)

    def submit(self, turn: Turn) -> None:
        """Run the turn when those before it are over. A running turn that only waits for its client is stopped for
        it."""
        self.check_room()
        self._queue.append(turn)
        turn.leave = partial(self._dismiss, turn)
        self._admit(turn)
        self._start_work()

    def _admit(self, turn: Turn) -> None:
        self.retired = False
        if self.turn is not None and self.turn is not turn and self.turn.parked:
            self.turn.stop(StopCause.SUPERSEDED)

    def _start_work(self) -> None:
        if not self._working:
            self._working = True
            self._deps.tasks.start(self._work(), f"session {self.id}")

    @asynccontextmanager
    async def held(self) -> AsyncIterator[None]:
        """Keep turns away while the transcript is changed; turns that arrive wait. Raises `TurnRunning`."""
        if self.busy:
            raise TurnRunning(self.id)
        self._working = True
        try:
            yield
        finally:
            self._working = bool(self._queue)
            if self._working:
                self._deps.tasks.start(self._work(), f"session {self.id}")
            else:
                self._rested(self)

    async def aside(self, turn: Turn) -> TurnOutcome:
        """Ask the agent something that is not part of the conversation, while the session is held. Nothing is stored,
        and the seat, whose agent now knows more than the transcript says, is released."""
        self.turn = turn
        try:
            async with asyncio.timeout(None) as turn.scope:
                agent = await self._ask(turn)
            return await self._listen(turn, agent)
        except TimeoutError:
            if turn.stopped is None:
                raise
            return stopped(turn.stopped)
        except (PoolError, GatewayError) as error:
            return fault(error)
        finally:
            if turn.pending_calls is not None:
                turn.pending_calls.close("the turn is over")
            self.seat_manager.leave()
            self.turn = None
            turn.over.set()

    def check_outputs(self, call_ids: Sequence[str]) -> None:
        """Raise `OutputsMissing` unless these answer every call that the client was handed."""
        turn = self.turn
        missing = turn.pending_calls.missing(call_ids) if turn is not None and turn.pending_calls is not None else []
        if missing:
            raise OutputsMissing(missing)

    def resume(self, answer: AnswerStream, outputs: Sequence[CallOutput]) -> Turn | None:
        """Continue the parked turn with these results. None: it does not exist any more, so the conversation must be
        replayed.

        Raises `CallsAnswered` if another request has brought results for one of the calls.
        """
        turn = self.turn
        pending = None if turn is None else turn.pending_calls
        again = [] if pending is None else [output.call_id for output in outputs if output.call_id in pending.taken]
        if again:
            raise CallsAnswered(again)
        if turn is None or turn.next is None or not turn.parked:
            return None
        if turn.agent is None or turn.agent.finished is not None:
            turn.next.set_result(None)
            return None
        self.check_outputs([output.call_id for output in outputs])
        turn.next.set_result(Continuation(answer, outputs))
        turn.resumed = answer.id
        if pending is not None:
            pending.taken.update(output.call_id for output in outputs)
        return turn

    def pending_permissions(self) -> list[Permission]:
        """Permission requests of the running turn that wait for an answer, the oldest first."""
        return [] if self.turn is None else self.turn.pending_permissions()

    def answer_permission(self, permission_id: str, *, allow: bool, always: bool = False) -> bool:
        """Answer a permission request. False if it does not wait any more. `always`: for the whole session."""
        return self.turn is not None and self.turn.answer_permission(permission_id, allow=allow, always=always)

    async def decide(self, agent_session: str, asked: PermissionAsked) -> PermissionChoice:
        """The permission policy of every seat of this session: applies the level of the running turn."""
        turn, permits = self.turn, self._deps.permits
        rule = PermissionRule.DENY if turn is None else turn.ask.rule or permits.rule(turn.ask.key)
        functions = [] if turn is None else [str(each["name"]) for each in turn.ask.tools]
        if rule is PermissionRule.AUTO or of_function(asked, functions, SERVER_NAME):
            return await allow(agent_session, asked)
        if turn is None or turn.pending_calls is None or rule is PermissionRule.DENY:
            return await deny(agent_session, asked)
        if rule is PermissionRule.WORKSPACE:
            if of_function(asked, self._offered, SERVER_NAME) or await self._stays_inside(asked, str(turn.ask.key.cwd)):
                return await allow(agent_session, asked)
            if turn.ask.hands_over:
                return await deny(agent_session, asked)
        if kind_of(asked) in self._granted:
            return PermissionChoice(first_of(YES, asked.options), "person")
        said: CallResult | None = None
        # For a request that is handed over, the wait for the client's next request is the deadline (`CallHandover`).
        with suppress(TimeoutError):
            async with asyncio.timeout(None if turn.ask.hands_over else permits.deadline):
                said = await turn.pending_calls.permit(asked, hands_over=turn.ask.hands_over)
        if said is ALWAYS:
            self._granted.add(kind_of(asked))
        yes = said is not None and not said.is_error
        return PermissionChoice(first_of(YES if yes else NO, asked.options), "timeout" if said is None else "person")

    async def _stays_inside(self, asked: PermissionAsked, cwd: str) -> bool:
        """Whether the request is an edit of files inside the directory. No answer from the disk in time counts as
        outside."""
        if not is_edit(asked):
            return False
        paths = paths_of(asked)
        try:
            return await self._probe.find((cwd, *paths), partial(inside, paths, cwd), PATIENCE, place=cwd)
        except ProbeFailed:
            return False

    def stop_all(self, reason: StopCause) -> None:
        """Stop the running turn and those that wait."""
        for turn in [*self._queue, self.turn]:
            if isinstance(turn, Turn):
                turn.stop(reason)

    def release_seat(self) -> None:
        """Release the seat between turns; the next turn tells an agent what it has missed."""
        if self.turn is None:
            self.seat_manager.rest()
            self._rested(self)

    def let_go(self) -> None:
        """Release everything held for the session: it was idle for long, or the gateway ends."""
        self.seat_manager.rest()
        self._close_tools()

    # --- the line of a turn ---

    async def run(self, turn: Turn) -> None:
        """Store the question, take a seat, prompt, read the events, finish."""
        turn.timings.begin()
        with on_behalf_of(turn.origin, session_id=self.id, turn_id=turn.id):
            outcome = await self._answer(turn)
            try:
                await self._finish(turn, outcome)
            finally:
                turn.over.set()

    async def _answer(self, turn: Turn) -> TurnOutcome:
        try:
            if (before := turn.stopped) is not None:
                return unasked(before)
            # Not cancelled by a stop: the write completes anyway, and a cancelled caller could not take it back.
            await self._turn_store.remember(turn)
            turn.timings.store()
            async with asyncio.timeout(None) as turn.scope:
                if turn.stopped is not None:
                    return unasked(turn.stopped)
                agent = await self._ask(turn)
            return await self._listen(turn, agent)
        except TimeoutError:
            if turn.stopped is None:
                raise
            return unasked(turn.stopped)
        except (PoolError, GatewayError) as error:
            log.warning("turn %s of session %s failed: %s", turn.id, self.id, error)
            return fault(error)
        except Exception:
            log.exception("turn %s of session %s failed by a fault of the gateway", turn.id, self.id)
            return failed("internal_error", "the gateway failed; its log says why")
        finally:
            turn.scope = None

    async def _ask(self, turn: Turn) -> AgentTurn:
        """Prompt an agent; prompt another one if the first died before it was prompted."""
        kit, context = await self._equip(turn)
        try:
            return await self._sit_and_prompt(turn, kit, context)
        except TransportLost as lost:
            if lost.phase is not Phase.IDLE:
                raise
        except SeatLost as lost:
            log.info("session %s takes another agent: %s", self.id, lost)
        await self.seat_manager.wait_lost()
        return await self._sit_and_prompt(turn, kit, context)

    async def _sit_and_prompt(self, turn: Turn, kit: Offer, context: SessionContext) -> AgentTurn:
        untold = await self._turn_store.untold(turn, self.seat_manager.known)
        seat = await self.seat_manager.attach(turn, kit, context, current=untold is not None)
        turn.timings.sit()
        before = await self._turn_store.history(turn) if untold is None or seat.known is None else untold
        return await self._prompt(turn, seat, before, kit, context)

    async def _equip(self, turn: Turn) -> tuple[Offer, SessionContext]:
        """Return the tools of this turn, and the session that their calls name."""
        ask, deps = turn.ask, self._deps
        pending = turn.pending_calls = PendingCalls(
            turn.put, deps.ids.make, deps.settings.call_gather, parallel=ask.parallel_calls
        )
        provider, model, cwd = ask.key.provider, ask.key.model, str(ask.key.cwd)
        facts = SessionFacts(session_id=self.id, cwd=cwd, provider=provider, model=model)
        context = SessionContext(facts, self.owner)
        wanted = (provider, ask.remembered)
        if self._tools is None or self._tools[0] != wanted:
            self._close_tools()
            self._tools = (wanted, await deps.toolsets.session_tools(context, remembered=ask.remembered))
        every = deps.settings.turn_inactivity / SIGNS_OF_LIFE
        kit = self._tools[1].kit(Offer(ask.tools, pending.dispatch), pending.still_here, every)
        self._offered = tuple(str(each["name"]) for each in kit.definitions)
        return kit, context

    async def _prompt(
        self, turn: Turn, seat: SessionSeat, before: Sequence[HistoryLine], kit: Offer, context: SessionContext
    ) -> AgentTurn:
        """Send the agent what it does not know yet, and the question."""
        ask, deps, timings = turn.ask, self._deps, turn.timings
        wanted = ask.instructions or await self._turn_store.instructions()
        untold = wanted if wanted and wanted != seat.instructions else None
        recalled = await deps.observer.recall(self.id, ask.text) if ask.memorable else ""
        provider = deps.providers[ask.key.provider]
        parts, left_out = compose(ask, before, provider, instructions=untold, recalled=recalled)
        if left_out:
            turn.left_out = left_out
            log.warning("session %s: %d old messages do not fit the prompt and are left out", self.id, left_out)
        began = deps.clock()
        seat.offer(kit, context)
        timings.bridge = deps.clock() - began
        timings.prompt()
        agent = await seat.lease.prompt(parts, level=ask.rule or deps.permits.rule(ask.key))
        if not isinstance(agent, AgentTurn):
            raise TypeError("sessions run on the pool's own loop")
        seat.instructions = untold or seat.instructions
        turn.ride(agent)
        if left_out:
            turn.put(HistoryCut(left_out))
        if self.seat_manager.tell_lost_tools():
            turn.put(SeatToolsLost())
        return agent

    async def _listen(self, turn: Turn, agent: AgentTurn) -> TurnOutcome:
        """Pass on every event until the end of the turn, with a handover to the client in between if calls wait."""
        settings = self._deps.settings
        limit, room, items = settings.turn_limit, settings.answer_room, settings.answer_items
        timer = limit and asyncio.get_running_loop().call_later(limit, turn.stop, StopCause.TIME)
        try:
            async with agent:
                while not isinstance(event := await agent.deliver_to(partial(passed_on, turn, room, items)), Finished):
                    await self._handover.to_client(turn)
                return spoken(turn, outcome_of(event, turn.stopped))
        finally:
            if timer:
                timer.cancel()

    async def _finish(self, turn: Turn, outcome: TurnOutcome) -> None:
        """End the turn once: store first, then tell the client. If a step fails, the client still gets an end."""
        try:
            await self._sum_up(turn, outcome)
        finally:
            last = await self._close(turn, outcome)
            try:
                self.seat_manager.settle(turn, outcome, last)
                answered = outcome.status is TurnStatus.COMPLETED and last is not None and turn.whole
                if answered and turn.ask.memorable:
                    self._deps.observer.turn_ended(self.id, turn.ask.text, turn.whole)
            finally:
                turn.answer.publish()

    async def _sum_up(self, turn: Turn, outcome: TurnOutcome) -> None:
        """Report the turn, and take back a question that no agent got, unless its client was promised an answer."""
        if turn.pending_calls is not None:
            turn.pending_calls.close("the turn is over")
        key, timings = turn.ask.key, turn.timings
        facts = timings.report(self.id, turn.id, f"{key.provider}/{key.model}", self.owner)
        report = TurnReport(self.id, turn.id, key, outcome, facts, timings, turn.origin, turn.left_out, self.owner)
        self._deps.turns.turn_ended(report)
        if turn.agent is None:
            await self._turn_store.take_back(turn)

    # --- its parts ---

    def _close_tools(self) -> None:
        tools, self._tools = self._tools, None
        # After a forced shutdown the task owner is gone before the last session; then the maker of the tool servers
        # stops them.
        if tools is not None and tools[1] is not NOTHING and not self._deps.tasks.disbanded:
            self._deps.tasks.start(tools[1].close(), f"tools of {self.id}")

    async def _work(self) -> None:
        try:
            while self._queue:
                first = self._queue.popleft()
                self.turn = await first.coming if isinstance(first, Reserved) else first
                if self.turn is None:
                    continue
                self.turn.leave = None
                try:
                    await self.run(self.turn)
                except Exception:
                    # Turns that wait behind this one must still run.
                    log.exception("turn %s of session %s has no end", self.turn.id, self.id)
                finally:
                    self.turn = None
        finally:
            self._working = False
            self._rested(self)

    def _dismiss(self, turn: Turn) -> None:
        """A turn was stopped in the queue: free its place at once, and tell its client without waiting for the turns
        before it."""
        turn.leave = None
        self._queue.remove(turn)
        self._leaving += 1
        self._deps.tasks.start(self._turn_away(turn), f"a turn that left the queue of {self.id}")

    async def _turn_away(self, turn: Turn) -> None:
        try:
            if turn.receipt and turn.stopped is StopCause.DRAIN and self.turn is not None:
                await self.turn.over.wait()  # its question is stored by then, before this one
            await self._close(turn, unasked(turn.stopped or StopCause.CLIENT))
            turn.answer.publish()
        finally:
            turn.over.set()
            self._leaving -= 1
            if not self.busy:
                self._rested(self)

    async def _close(self, turn: Turn, outcome: TurnOutcome) -> int | None:
        """Store the answer. A bug of ours must not leave its client without an end."""
        try:
            return await self._turn_store.close_answer(turn, outcome, [])
        except Exception:
            log.exception("the end of turn %s of session %s is not stored by a fault of the gateway", turn.id, self.id)
            turn.answer.close(failed("internal_error", "the gateway failed; its log says why"), [], self._deps.wall())
            return None


def spoken(turn: Turn, outcome: TurnOutcome) -> TurnOutcome:
    """Turn a completed outcome into a failure if the agent ended its turn without a text, a thought or a call."""
    if outcome.status is not TurnStatus.COMPLETED or turn.answering:
        return outcome
    text = "the agent ended its turn without a text, a thought or a call; ask again, or look into its own log"
    return replace(failed("empty_answer", text), usage=outcome.usage)


def passed_on(turn: Turn, room: int, items: int, event: TurnEvent) -> bool:
    """Add one event to the answer. False if waiting calls must be handed to the client now."""
    answer = turn.answer
    if answer.size > room:
        return True  # The turn was stopped; drop what still comes until the agent has reacted.
    if answer.count >= items:
        turn.stop(StopCause.ITEMS)
    elif type(event) is CallsReady:
        return False
    elif type(event) is not CallsWaiting:
        turn.take(shortened(event, room - answer.size))
        if answer.size > room:
            turn.stop(StopCause.SIZE)
    return True


def shortened(event: TurnEvent, room: int) -> TurnEvent:
    """Return the event with its text cut to the room left: one line of an agent may have megabytes."""
    if isinstance(event, Text | Thought) and COPIES * len(event.text) > room:
        return replace(event, text=event.text[: max(0, room // COPIES) + 1])
    return event
