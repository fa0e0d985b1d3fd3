"""One agent-side session: performs what `SessionMachine` decides.

Rules:
- The machine decides which prompt is sent, when a turn ends and when the session is over (`session_machine.py`). This
  file sends, waits and keeps the one timer. No action has an `await` between the decision and its effect.
- A second prompt raises `SessionBusy` and is never sent. Real agents have six ways of mishandling a second prompt.
- Events between turns are counted (`late`), not kept, and never enter a turn. Events that an agent repeats while it
  loads serve one purpose: to check that it has what was said last (`ReplayCheck`). The transcript is the gateway's.
- An event of a running turn goes straight to its consumer. The machine is told of it only where it may decide anything
  (`attentive`), since this happens for each piece of text.
"""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from contextvars import Context
from functools import partial
from typing import Any, Protocol, TypeVar

from ostler.pool.agent import session_actions as actions
from ostler.pool.agent import session_events as events
from ostler.pool.agent.codec import Codec, PermissionWanted, ToolWanted
from ostler.pool.agent.connection import Pending, ignore_death
from ostler.pool.agent.prompt_checks import PromptHost, require_sendable
from ostler.pool.agent.replay_check import WORDS, LastPrompt, ReplayCheck
from ostler.pool.agent.requests import OpenRequests
from ostler.pool.agent.session_events import SessionState
from ostler.pool.agent.session_machine import NEVER, SessionMachine
from ostler.pool.agent.turn import AgentTurn
from ostler.pool.errors import Phase, SessionBusy, SessionEnded, TransportLost
from ostler.pool.events import AgentEvent, Finished, PermissionAsked, StopReason, Text, Thought, ToolStarted
from ostler.pool.launch.builder import Launch
from ostler.pool.order import LastTexts, SeatOrder, SessionMemo
from ostler.pool.prompt import PromptCapabilities, PromptPart, check_prompt
from ostler.pool.provider import Level
from ostler.wire.rpc import RpcFault, RpcId

T = TypeVar("T")

ANSWERS = frozenset({Text, Thought, ToolStarted, PermissionAsked})
"""Events that begin an answer; agents send other events before they have asked their model."""


class Host(PromptHost, Protocol):
    """What a session needs of its transport."""

    launch: Launch
    codec: Codec
    late: int

    @property
    def capabilities(self) -> PromptCapabilities: ...
    def wall(self) -> float: ...
    def hold(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]": ...
    def run_closing_task(self, work: Coroutine[Any, Any, T]) -> "asyncio.Task[T]": ...
    async def end_session(self, session: "AgentSession") -> bool: ...


class AgentSession:
    """One session of an agent process. Opened by `Transport.open` or `Transport.load`."""

    def __init__(self, host: Host, session_id: str, order: SeatOrder, *, memo: SessionMemo | None = None) -> None:
        self.id = session_id
        self.order = order
        self.mode: str | None = None
        self.model: str | None = None
        self.late = 0
        """Events that arrived while no turn ran."""
        self._host = host
        self._loop = asyncio.get_running_loop()
        self._provider = host.launch.provider
        self._strips = host.launch.provider.strips
        deadlines = host.launch.settings.deadlines
        self._machine = SessionMachine(session_id, host.launch.provider, deadlines, loading=memo is not None)
        self._timer: asyncio.TimerHandle | None = None
        self._timer_at = NEVER
        self._waiter: asyncio.Future[None] | None = None
        """Waits for the machine's `ResumeWaiter`."""
        said = memo.said if memo else LastTexts()
        self._replay_check = ReplayCheck(said, self._provider.replays_noise)
        self._last = LastPrompt(said)
        self._turn: AgentTurn | None = None
        self._receiving: AgentTurn | None = None
        """The turn that the agent was prompted with: its events go there."""
        self._attentive = False
        """`SessionMachine.attentive`, where each piece of text can look at it."""
        self._call_id = 0
        self._closing: asyncio.Task[bool] | None = None
        self._unanswered: Callable[[], None] | None = None
        self._requests = OpenRequests(host, session_id, order, self._announce, limit=host.launch.settings.open_requests)
        self._opened_at = memo.opened_at if memo else host.wall()
        self._last_turn_at = memo.last_turn_at if memo else self._opened_at

    @property
    def cwd(self) -> str:
        """The directory that the session works in."""
        return self.order.cwd

    @property
    def state(self) -> SessionState:
        """What the session is doing."""
        return self._machine.state

    @property
    def sealed(self) -> str | None:
        """Why no further prompt is accepted; None while the session is good."""
        return self._machine.sealed

    @property
    def abandoned_mid_turn(self) -> bool:
        """The agent was still in a turn when the session was given up, and may go on with it unseen."""
        return self._machine.abandoned_mid_turn

    @property
    def turn(self) -> AgentTurn | None:
        """The running turn: running for the agent, even if its consumer is done with it."""
        return self._turn

    @property
    def memo(self) -> SessionMemo:
        """The facts that another process needs to load this session."""
        return SessionMemo(self.id, self.cwd, self._opened_at, self._last_turn_at, self._last.said)

    @property
    def recalled(self) -> int:
        """Events of the conversation that the agent repeated while it loaded; 0 for a new session."""
        return self._replay_check.recalled

    @property
    def remembers(self) -> bool:
        """Whether the replay of the load contains what was said last."""
        return self._replay_check.holds

    def on_answer(self, listener: Callable[[], None]) -> None:
        """Call `listener` once, soon after the next answer has begun or its turn has ended without one."""
        self._unanswered = listener

    async def prompt(self, parts: Sequence[PromptPart], level: Level | None = None) -> AgentTurn:
        """Send a prompt.

        Raises `SessionBusy`, `SessionEnded`, `PromptTooLarge`, `PromptUnsupported` (nothing was sent), `BadDirectory`
        (the session's directory leads elsewhere now), `AgentSilent` (the agent takes no more bytes) or `TransportLost`
        (phase idle if the process had ended before anything was sent). Later failures are reported in the turn's
        `Finished`.
        """
        if self._host.connection.ended:
            raise self._host.connection.lost(Phase.IDLE)
        parts = self._host.launch.plain.all(parts)
        check_prompt(parts, self._provider, self._host.capabilities)
        self._handle(events.PromptAsked())
        number = self._machine.turn.number
        turn = self._turn = AgentTurn(partial(self._handle, events.CancelAsked(number)))
        try:
            await self._leave(SessionState.WAITING)
            await require_sendable(self._host, self.order)
            self._handle(events.PromptChecked(number, parts, level))
        except BaseException as error:
            self._handle(events.PromptWithdrawn(number, str(error)))
            raise
        if turn.finished is not None and turn.finished.reason is not StopReason.CANCELLED:
            self.require_good()
        return turn

    async def cancel(self) -> None:
        """Cancel the running turn, if any, and wait for its end: the cancel grace at most."""
        turn = self._turn
        if turn is not None:
            turn.cancel()
            await turn.ended()

    async def close(self) -> bool:
        """End the session. True: the agent ended it. False: it is given up and counted as leaked. Idempotent."""
        if self._closing is None:
            # A task of the transport: neither a caller that gives up nor the transport's end cancels it.
            self._closing = self._host.run_closing_task(self._close())
        return await asyncio.shield(self._closing)

    # The transport calls these.

    def receive(self, event: AgentEvent) -> None:
        """Handle an event of this session; called in wire order."""
        turn, kind = self._receiving, type(event)
        if turn is None:
            self._receive_outside_turn(event)
        elif kind is Finished:
            self._handle(events.AgentFinished(self._machine.turn.number, event))  # type: ignore[arg-type] # by kind
        elif self._strips is not None and type(event) is Text and self._strips.fullmatch(event.text):
            return  # text of the agent itself, and no part of the answer
        elif not turn.put(event):
            self._handle(events.ConsumerTooSlow())
        elif self._attentive:
            self._note(kind)

    def permission(self, request_id: RpcId, wanted: PermissionWanted) -> None:
        """Ask the policy for a decision; without a turn that can want one, decline."""
        if not self._machine.may_ask:
            self._requests.decline(request_id, wanted)
        elif self._requests.full:
            self._requests.refuse(request_id)
        else:
            # In this order: if the consumer is too slow for the event, the request is dropped again.
            self._requests.decide(request_id, wanted)
            self.receive(wanted.asked)

    def tool(self, request_id: RpcId, wanted: ToolWanted) -> None:
        """Run a tool that the agent calls without a relay."""
        self._requests.call(request_id, wanted)

    async def replayed(self) -> None:
        """Wait until the agent has repeated the conversation; later events no longer count as replay."""
        self._handle(events.LoadAnswered(self.remembers))
        await self._leave(SessionState.LOADING)

    def die(self, lost: TransportLost) -> None:
        """End the session with its process; the error is the end of a running turn."""
        self.seal(str(lost), Finished(StopReason.FAILED, str(lost), cause=lost))

    def seal(self, why: str, end: Finished | None = None) -> None:
        """Accept no further prompt and end a running turn now. The first reason given stays."""
        self._handle(events.SealAsked(why, end))

    def require_good(self) -> None:
        """Raise `SessionEnded` for a sealed session."""
        if self.sealed is not None:
            raise SessionEnded(self.id, self.sealed)

    # What the machine is told, and what it orders.

    def _handle(self, event: events.SessionEvent) -> None:
        machine = self._machine
        for action in machine.handle(event, self._loop.time()):
            self._perform(action)
        self._attentive = machine.attentive
        if machine.due != self._timer_at:
            self._set_timer(machine.due)

    def _set_timer(self, due: float) -> None:
        """A timer that is due too early is kept, and set again when it fires: a replay moves `due` with each event."""
        if self._timer is not None and (due < self._timer_at or due == NEVER):
            self._timer.cancel()
            self._timer, self._timer_at = None, NEVER
        if self._timer is None and due < NEVER:
            self._timer, self._timer_at = self._loop.call_at(due, self._wake), due

    def _wake(self) -> None:
        self._timer, self._timer_at = None, NEVER
        heard = 0 if self._turn is None else self._turn.count
        self._handle(events.TimePassed(heard, self._requests.waiting))

    def _perform(self, action: actions.SessionAction) -> None:
        match action:
            case actions.RefusePrompt():
                self.require_good()
                raise SessionBusy(self.id)
            case actions.ResumeWaiter():
                if self._waiter is not None and not self._waiter.done():
                    self._waiter.set_result(None)
            case actions.SendPrompt(parts, level):
                self._send(parts, level)
            case actions.TellCancel():
                self._tell_cancel()
            case actions.DropRequests(calls):
                self._requests.drop(calls=calls)
            case actions.EndTurn(finished) if self._turn is not None:
                self._turn.end(finished)
            case actions.FreeSession():
                self._free(action)
            case actions.ReportAnswer() if self._unanswered is not None:
                # Called after the consumer of this event has run, so that the consumer need not wait for it. The
                # context is empty: the listener belongs to no request.
                self._loop.call_soon(self._unanswered, context=Context())
                self._unanswered = None

    def _send(self, parts: Sequence[PromptPart], level: Level | None) -> None:
        call, turn = self._host.codec.prompt(self.id, parts, level), self._turn
        # Of the death the session is told by its transport, and the turn by its session.
        pending = Pending(call.method, Phase.PROMPT, partial(self._answered, turn), ignore_death)
        self._call_id = self._host.connection.call(call, pending)
        self._last.ask(parts)
        self._receiving = turn

    def _tell_cancel(self) -> None:
        said = self._host.codec.cancel(self.id)
        if said is not None:
            self._handle(events.CancelTold())
            self._host.connection.tell(said)

    def _free(self, end: actions.FreeSession) -> None:
        if end.sent:
            self._host.connection.forget(self._call_id)
            self._last.end(well=end.well, answered=end.worded)
            self._last_turn_at = self._host.wall()
        self._turn = self._receiving = None

    def _announce(self, event: AgentEvent) -> None:
        """Put an event of the pool, not of the agent, into the running turn."""
        if self._turn is not None:
            self._turn.put(event)

    # What the agent says.

    def _note(self, kind: type[AgentEvent]) -> None:
        answers, words = kind in ANSWERS, kind in WORDS
        if words or self._machine.cancel_pending or (answers and not self._machine.turn.begun):
            self._handle(events.AgentActed(answers, words))

    def _receive_outside_turn(self, event: AgentEvent) -> None:
        """Handle an event outside any turn: replay while loading, otherwise late."""
        if self.state is SessionState.LOADING:
            self._replay_check.record(event)
            self._handle(events.EventRepeated(self.remembers))
        else:
            self.late += 1
            self._host.late += 1
            if self._loop.time() < self._machine.quiet_until:
                self._handle(events.LateEvent())

    def _answered(self, turn: AgentTurn | None, result: Any, fault: RpcFault | None) -> None:
        if turn is not self._receiving:
            return
        if fault is not None:
            self._host.codec.failed(self.id, fault)
            message = self._host.connection.described(fault)
            self._handle(events.PromptRefused(self._machine.turn.number, fault.code, message))
        elif (finished := self._host.codec.replied(self.id, result)) is not None:
            self._handle(events.AgentFinished(self._machine.turn.number, finished))
        elif self._machine.cancel_pending:
            self._handle(events.AgentActed(answers=False, words=False))

    # Waits.

    async def _leave(self, state: SessionState) -> None:
        """Wait until the machine has left this state."""
        if self.state is state:
            self._waiter = self._loop.create_future()
            await self._waiter

    async def _close(self) -> bool:
        turn = self._turn
        self._handle(events.CloseAsked())
        if turn is not None:
            await turn.ended()
        return await self._host.end_session(self)
