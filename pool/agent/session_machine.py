"""What decides in one agent session: `handle(event, now)` returns the actions. `AgentSession` performs them.

Rules:
- Pure: no asyncio, no clock, no codec. `TABLE`, at the end, says which event means something in which state and what
  may follow; any other event is stale and has no effect.
- A session has one turn at a time. Its facts are one object, replaced by the next claim: nothing of one turn is in the
  next. The turn's consumer gets its end once (`EndTurn`), and the agent's end of it frees the session (`FreeSession`);
  the former may come earlier: too slow, silent, sealed.
- A state has at most one deadline, `due`. An agent that does not end a cancelled turn by then is given up: the session
  is sealed. Sealed is final, and the first reason stays.
- After a cancelled turn the next prompt waits for a short quiet period: late events do not name their turn.
"""

from collections.abc import Callable, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeAlias

from ostler.pool.agent import session_actions as actions
from ostler.pool.agent import session_events as events
from ostler.pool.agent.session_events import SessionState
from ostler.pool.core.records import ImpossibleTransition
from ostler.pool.errors import AgentFault, AgentSilent, PoolError, UnknownSession
from ostler.pool.events import Finished, StopReason
from ostler.pool.launch.settings import REPLAY_AT_MOST, Deadlines
from ostler.pool.provider import Provider

NEVER = float("inf")
SILENCE_TICKS = 4
"""A turn's silence is checked this many times within its limit, so it is noticed at most a quarter late."""
QUIET_AT_MOST = 1.0
"""Seconds that a prompt waits for quiet, however long late events keep coming."""
MORE_QUIET = 5
"""Factor on the quiet period that ends a replay, while what was said last has not been found in it: on a busy machine
an agent may pause, or begin late.
"""
WELL = frozenset({StopReason.DONE, StopReason.LIMIT})
"""Stop reasons after which an agent has the prompt and its answer on record."""
WHY_CLOSED = "it was closed"
WHY_SPOILED = "the agent went on with a cancelled turn"
WHY_SLOW = "the consumer is too slow: more waits for it than may be held; the turn was cancelled"
LOADING, IDLE, WAITING, CHECKING, RUNNING, CANCELLING, SETTLING, SEALED, CLOSED = SessionState
FREED = frozenset({IDLE, SEALED, CLOSED})
"""What may follow the end of a turn."""
NO_END = Finished(StopReason.FAILED)
"""Stands for the agent's end of a turn that it has not ended."""
TIMELESS = FREED | {CHECKING}
"""States without a deadline."""


@dataclass(slots=True)
class TurnFacts:
    """What is known of the claimed turn."""

    number: int
    quiet_by: float
    """The prompt waits for quiet until then at the latest."""
    sent: bool = False
    cancelled: bool = False
    """It is to end; `told`: the agent was told so."""
    told: bool = False
    ended: bool = False
    """The consumer has its end."""
    begun: bool = False
    """An answer began; `worded`: with something that every agent repeats when it loads the session."""
    worded: bool = False
    heard: int = 0
    """Events so far when its silence was checked last."""
    silent: int = 0
    """Checks in a row that found no sign of life."""
    finished: Finished = field(default_factory=lambda: NO_END)
    """The agent's end of the turn, in `SETTLING`."""


Row: TypeAlias = tuple[Callable[[Any, Any], SessionState], AbstractSet[SessionState]]
"""What handles an event in a state and returns the state that follows, and which states those may be."""


class SessionMachine:
    """The decisions of one session. Only `handle` changes them; everything else is to be read."""

    def __init__(self, session_id: str, provider: Provider, deadlines: Deadlines, *, loading: bool) -> None:
        self.state = LOADING if loading else IDLE
        self.due = NEVER
        """When `TimePassed` is to be sent."""
        self.sealed: str | None = None
        """Why no further prompt is accepted; None while the session is good."""
        self.abandoned_mid_turn = False
        self.quiet_until = 0.0
        """A prompt waits until then; late events before it move it."""
        self.turn = TurnFacts(0, 0.0)
        self._session_id = session_id
        self._provider = provider
        self._deadlines = deadlines
        self._now = 0.0
        self._replay_by = NEVER
        self._closing = False
        self._actions: list[actions.SessionAction] = []

    @property
    def may_ask(self) -> bool:
        """Whether there is a turn that can want a permission; any other request for one is declined."""
        return self.state is RUNNING

    @property
    def cancel_pending(self) -> bool:
        """Whether the agent is still to be told to cancel: it could not be told yet."""
        return self.state is CANCELLING and not self.turn.told

    @property
    def attentive(self) -> bool:
        """Whether an event of the running turn may decide anything: the first words, or one that allows the cancel."""
        return not self.turn.worded or self.cancel_pending

    def handle(self, event: events.SessionEvent, now: float) -> list[actions.SessionAction]:
        """Record one event and return the actions, to be performed in this order. Time never goes back here.

        Raises `ImpossibleTransition` where `TABLE` does not have what a handler decided: a defect of this file.
        """
        self._now = max(self._now, now)
        row = self.TABLE[self.state].get(type(event))
        if row is None or (isinstance(event, events.TurnEventBase) and event.turn != self.turn.number):
            return []
        if type(event) is events.TimePassed and self._now < self.due:
            return []
        self._actions = []
        handler, allowed = row
        after = handler(self, event)
        if after not in allowed:
            raise ImpossibleTransition(f"not in the table: {self.state.value} -> {after.value} by {event}")
        self.state = after
        if after in TIMELESS:
            self.due = NEVER
        return self._actions

    # The load.

    def _await_replay(self, event: events.LoadAnswered) -> SessionState:
        if not self._provider.replay_quiet:
            return self._end_load(event)
        self._replay_by = self.due = self._now + REPLAY_AT_MOST
        return self._extend_replay(event)

    def _extend_replay(self, event: events.LoadAnswered | events.EventRepeated) -> SessionState:
        if self.due < NEVER:  # before the agent's answer to the load, nothing ends the replay
            quiet = self._provider.replay_quiet * (1 if event.found else MORE_QUIET)
            self.due = min(self._now + quiet, self._replay_by)
        return LOADING

    def _end_load(self, _event: events.LoadAnswered | events.TimePassed) -> SessionState:
        self._actions.append(actions.ResumeWaiter())
        return IDLE

    # The prompt, until it is sent.

    def _refuse(self, _event: events.PromptAsked) -> SessionState:
        self._actions.append(actions.RefusePrompt())
        return self.state

    def _claim(self, _event: events.PromptAsked) -> SessionState:
        self.turn = TurnFacts(self.turn.number + 1, self._now + QUIET_AT_MOST)
        self.due = min(self.quiet_until, self.turn.quiet_by)
        return WAITING if self.due > self._now else CHECKING

    def _extend_quiet(self, _event: events.LateEvent) -> SessionState:
        if self._now < self.quiet_until:
            self.quiet_until = self._now + self._provider.cancel_quiet
        if self.state is WAITING:
            self.due = min(self.quiet_until, self.turn.quiet_by)
        return self.state

    def _end_quiet(self, _event: events.TimePassed) -> SessionState:
        self._actions.append(actions.ResumeWaiter())
        return CHECKING

    def _withdraw(self, event: events.PromptWithdrawn) -> SessionState:
        self.turn.sent = False
        return self._free(Finished(StopReason.FAILED, event.why))

    def _cancel_unsent(self, _event: events.CancelAsked) -> SessionState:
        return self._free(Finished(StopReason.CANCELLED))

    def _send(self, event: events.PromptChecked) -> SessionState:
        self.turn.sent = True
        self.due = self._now + self._deadlines.prompt_inactivity / SILENCE_TICKS
        self._actions.append(actions.SendPrompt(event.parts, event.level))
        return RUNNING

    # The turn, while the agent is in it.

    def _note(self, event: events.AgentActed) -> SessionState:
        turn = self.turn
        if self.cancel_pending:
            self._actions.append(actions.TellCancel())
        if event.answers and not turn.begun:
            turn.begun = True
            self._actions.append(actions.ReportAnswer())
        turn.worded = turn.worded or event.words
        return self.state

    def _check_silence(self, event: events.TimePassed) -> SessionState:
        turn, limit = self.turn, self._deadlines.prompt_inactivity
        turn.silent = 0 if event.waiting or event.heard != turn.heard else turn.silent + 1
        turn.heard = event.heard
        self.due = self._now + limit / SILENCE_TICKS
        if turn.silent < SILENCE_TICKS:
            return RUNNING
        cause = AgentSilent(provider=self._provider.name, method="prompt", waited=limit)
        self._end(Finished(StopReason.FAILED, str(cause), cause=cause))
        return self._cancel()

    def _give_up_consumer(self, _event: events.ConsumerTooSlow) -> SessionState:
        self._end(Finished(StopReason.FAILED, WHY_SLOW))
        return self._cancel() if self.state is RUNNING else self.state

    def _cancel(self, _event: events.CancelAsked | None = None) -> SessionState:
        self.turn.cancelled = True
        self.due = self._now + self._deadlines.cancel_grace
        # In this order: an agent that gets "cancelled" for its question first may end the turn as if it were done.
        self._actions += (actions.TellCancel(), actions.DropRequests(calls=False))
        return CANCELLING

    def _note_told(self, _event: events.CancelTold) -> SessionState:
        self.turn.told = True
        return CANCELLING

    def _lose_patience(self, _event: events.TimePassed) -> SessionState:
        grace = self._deadlines.cancel_grace
        why = f"the agent did not end the turn within {grace:.1f} s after it was cancelled"
        return self._break_off(WHY_CLOSED if self._closing else why)

    # The end of the turn.

    def _finish(self, event: events.AgentFinished) -> SessionState:
        return self._end_with(event.finished)

    def _read_fault(self, event: events.PromptRefused) -> SessionState:
        reading, name = self._provider.faults, self._provider.name
        if self.turn.cancelled and event.code in reading.cancelled:
            if event.code in reading.spoiled:
                self.sealed = self.sealed or WHY_SPOILED
            return self._end_with(Finished(StopReason.CANCELLED))
        cause: PoolError = AgentFault(provider=name, method="prompt", code=event.code, message=event.message)
        if event.code in reading.unknown_session and reading.session_words.search(event.message):
            cause = UnknownSession(provider=name, session_id=self._session_id)
            self.sealed = self.sealed or str(cause)
        return self._end_with(Finished(StopReason.FAILED, str(cause), cause=cause))

    def _end_with(self, finished: Finished) -> SessionState:
        """The agent has ended its turn; some send the last updates a little later."""
        late = self._provider.late_updates
        if not late or finished.cause is not None:
            return self._free(finished)
        self.turn.finished = finished
        self.due = min(self._now + late, self.due if self.state is CANCELLING else NEVER)
        return SETTLING

    def _hasten(self, _event: events.CancelAsked | None = None) -> SessionState:
        self.turn.cancelled = True
        self.due = min(self.due, self._now + self._deadlines.cancel_grace)
        self._actions.append(actions.DropRequests(calls=False))
        return SETTLING

    def _settle(self, _event: events.TimePassed) -> SessionState:
        return self._free(self.turn.finished)

    def _end(self, finished: Finished) -> None:
        if not self.turn.ended:
            self.turn.ended = True
            self._actions.append(actions.EndTurn(finished))

    def _free(self, finished: Finished) -> SessionState:
        turn = self.turn
        if self.state is WAITING:
            self._actions.append(actions.ResumeWaiter())
        self._actions.append(actions.DropRequests(calls=True))
        self._end(finished)
        self._actions.append(actions.FreeSession(turn.sent, finished.reason in WELL, turn.worded))
        if not turn.begun:
            self._actions.append(actions.ReportAnswer())
        if turn.cancelled:
            self.quiet_until = self._now + self._provider.cancel_quiet
        return CLOSED if self._closing else IDLE if self.sealed is None else SEALED

    # The end of the session.

    def _seal(self, event: events.SealAsked) -> SessionState:
        return self._break_off(event.why, event.end)

    def _break_off(self, why: str, end: Finished | None = None) -> SessionState:
        """End the turn though its agent may go on with it."""
        self.sealed = self.sealed or why
        self.abandoned_mid_turn = self.turn.sent
        return self._free(end or Finished(StopReason.CANCELLED if self.turn.cancelled else StopReason.FAILED, why))

    def _seal_unused(self, event: events.SealAsked) -> SessionState:
        self.sealed = self.sealed or event.why
        if self.state is LOADING:
            self._actions.append(actions.ResumeWaiter())
        self._actions.append(actions.DropRequests(calls=True))
        return CLOSED if self._closing else SEALED

    def _close_unused(self, _event: events.CloseAsked) -> SessionState:
        self._closing = True
        return self._seal_unused(events.SealAsked(WHY_CLOSED))

    def _close(self, _event: events.CloseAsked) -> SessionState:
        self._closing = True
        self.sealed = self.sealed or WHY_CLOSED
        if not self.turn.sent:
            return self._free(Finished(StopReason.CANCELLED))
        if self.turn.ended:  # nothing waits for this turn any more
            return self._break_off(WHY_CLOSED)
        after = self.state
        if after is not CANCELLING:
            after = self._cancel() if after is RUNNING else self._hasten()
        self.due = min(self.due, self._now + self._deadlines.close)
        return after

    TABLE: ClassVar[Mapping[SessionState, Mapping[type[Any], Row]]] = {
        LOADING: {
            events.LoadAnswered: (_await_replay, {LOADING, IDLE}),
            events.EventRepeated: (_extend_replay, {LOADING}),
            events.TimePassed: (_end_load, {IDLE}),
            events.PromptAsked: (_refuse, {LOADING}),
            events.SealAsked: (_seal_unused, {SEALED}),
            events.CloseAsked: (_close_unused, {CLOSED}),
        },
        IDLE: {
            events.PromptAsked: (_claim, {WAITING, CHECKING}),
            events.LateEvent: (_extend_quiet, {IDLE}),
            events.SealAsked: (_seal_unused, {SEALED}),
            events.CloseAsked: (_close_unused, {CLOSED}),
        },
        WAITING: {
            events.TimePassed: (_end_quiet, {CHECKING}),
            events.LateEvent: (_extend_quiet, {WAITING}),
            events.PromptAsked: (_refuse, {WAITING}),
            events.PromptWithdrawn: (_withdraw, {IDLE}),
            events.CancelAsked: (_cancel_unsent, {IDLE}),
            events.SealAsked: (_seal, {SEALED}),
            events.CloseAsked: (_close, {CLOSED}),
        },
        CHECKING: {
            events.PromptChecked: (_send, {RUNNING}),
            events.LateEvent: (_extend_quiet, {CHECKING}),
            events.PromptAsked: (_refuse, {CHECKING}),
            events.PromptWithdrawn: (_withdraw, {IDLE}),
            events.CancelAsked: (_cancel_unsent, {IDLE}),
            events.SealAsked: (_seal, {SEALED}),
            events.CloseAsked: (_close, {CLOSED}),
        },
        RUNNING: {
            events.AgentActed: (_note, {RUNNING}),
            events.AgentFinished: (_finish, {IDLE, SETTLING}),
            events.PromptRefused: (_read_fault, {IDLE, SEALED}),
            events.TimePassed: (_check_silence, {RUNNING, CANCELLING}),
            events.ConsumerTooSlow: (_give_up_consumer, {CANCELLING}),
            events.PromptAsked: (_refuse, {RUNNING}),
            events.PromptWithdrawn: (_withdraw, {IDLE}),  # sending it failed
            events.CancelAsked: (_cancel, {CANCELLING}),
            events.SealAsked: (_seal, {SEALED}),
            events.CloseAsked: (_close, {CANCELLING}),
        },
        CANCELLING: {
            events.AgentActed: (_note, {CANCELLING}),
            events.CancelTold: (_note_told, {CANCELLING}),
            events.AgentFinished: (_finish, {IDLE, SETTLING, CLOSED}),
            events.PromptRefused: (_read_fault, FREED | {SETTLING}),
            events.TimePassed: (_lose_patience, {SEALED, CLOSED}),
            events.ConsumerTooSlow: (_give_up_consumer, {CANCELLING}),
            events.PromptAsked: (_refuse, {CANCELLING}),
            events.SealAsked: (_seal, {SEALED, CLOSED}),
            events.CloseAsked: (_close, {CANCELLING, CLOSED}),
        },
        SETTLING: {
            events.AgentActed: (_note, {SETTLING}),
            events.TimePassed: (_settle, FREED),
            events.ConsumerTooSlow: (_give_up_consumer, {SETTLING}),
            events.PromptAsked: (_refuse, {SETTLING}),
            events.CancelAsked: (_hasten, {SETTLING}),
            events.SealAsked: (_seal, {SEALED, CLOSED}),
            events.CloseAsked: (_close, {SETTLING, CLOSED}),
        },
        SEALED: {
            events.PromptAsked: (_refuse, {SEALED}),
            events.SealAsked: (_seal_unused, {SEALED}),
            events.CloseAsked: (_close_unused, {CLOSED}),
        },
        CLOSED: {
            events.PromptAsked: (_refuse, {CLOSED}),
        },
    }
