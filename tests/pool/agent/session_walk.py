"""A random walk over the events of one session after another, with agents, callers and consumers that behave as badly
as the real ones.

Rules: the walk believes only what it did itself and the actions that it was given; it never copies from the machine
that it judges. Every action is judged when it is given, and after every step the walk asks what is due. `lib` is the
module under test, so that a mutated copy can be walked as well. All randomness is here, from one seed.
"""

import argparse
import math
import random
import sys
import time
from dataclasses import dataclass, field, replace
from types import ModuleType
from typing import Any

import ostler.pool.agent.session_machine as original
from ostler.pool.agent import session_actions as actions
from ostler.pool.agent import session_events as events
from ostler.pool.errors import AgentFault, AgentSilent, BadDirectory, UnknownSession
from ostler.pool.events import Finished, StopReason
from ostler.pool.launch.settings import REPLAY_AT_MOST, Deadlines
from ostler.pool.provider import FaultReading, Provider
from ostler.pool.providers.acp import PROVIDER as ACP
from tests.support.walks import require

CANCELLED, SPOILED, FORGOTTEN, BROKEN = -1, -2, -3, -4
"""The codes of the agent's errors."""
FAULTS = FaultReading(
    unknown_session=frozenset({FORGOTTEN}), cancelled=frozenset({CANCELLED, SPOILED}), spoiled=frozenset({SPOILED})
)
LATE, SLACK = 0.01, 0.1
"""Seconds that the timer fires late at most, and that add up over several of its firings."""
QUIET_AT_MOST, MORE_QUIET, TICKS = 1.0, 5, 4
STEPS, WORLD = 1_000_000, 2_000


def alike(end: Finished, other: Finished) -> bool:
    """Whether two ends say the same; errors are equal to themselves only."""
    return (end.reason, end.detail, type(end.cause)) == (other.reason, other.detail, type(other.cause))


@dataclass(eq=False)
class MirrorTurn:
    """What the walk believes of the claimed turn."""

    number: int
    claimed_at: float
    waiting: bool
    """For quiet."""
    sent_at: float | None = None
    cancelled_at: float | None = None
    told: bool = False
    retry: bool = False
    """The agent could not be told yet and has said something since."""
    signed_at: float = 0.0
    """The last sign of life."""
    heard: int = 0
    begun: bool = False
    worded: bool = False
    reported: bool = False
    agent_end: Finished | None = None
    agent_ended_at: float = math.inf
    expected: Finished | None = None
    """The end that must come in this step."""
    end: Finished | None = None
    freed: bool = False


@dataclass(eq=False)
class MirrorSession:
    """What the walk believes of one session."""

    machine: Any
    provider: Provider
    deadlines: Deadlines
    loading: bool
    load_answered_at: float | None = None
    repeated_at: float = 0.0
    found: bool = False
    sealed: str | None = None
    closed_at: float | None = None
    """When it was asked to close."""
    turn: MirrorTurn | None = None
    turns: int = 0
    quiet_until: float = 0.0
    mid_turn: bool = False
    awaiting: bool = False
    """The agent waits for an answer of ours."""
    unchecked: list[int] = field(default_factory=list)
    """Turns whose prompt has not come back from its checks."""
    idle: int = 0

    @property
    def over(self) -> bool:
        return self.closed_at is not None and self.turn is None


class SessionWalk:
    def __init__(self, lib: ModuleType, seed: int) -> None:
        self.lib = lib
        self.rng = random.Random(seed)
        self.now, self.step = 0.0, 0
        self.event: Any = None
        self.given: list[Any] = []
        self.free = True
        """Whether the session was free when a prompt was asked last."""
        self.seen: set[tuple[Any, type, Any]] = set()
        """The moves that were made: state, event, state."""
        self.session = self._new_session()
        self._judges = {getattr(actions, name): getattr(self, f"_on_{name}") for name in ACTIONS}
        self._moves = [getattr(self, f"_{name}") for name, weight in MOVES for _ in range(weight)]

    def run(self, steps: int) -> int:
        while self.step < steps:
            self._pass_time()
            self.rng.choice(self._moves)()
            self.session.idle += self.session.over
            if self.session.idle > 5:
                self.session = self._new_session()
        return self.step

    def _new_session(self) -> MirrorSession:
        rng = self.rng
        provider = replace(
            ACP,
            late_updates=rng.choice((0.0, 0.0, 0.2, 2.0)),
            cancel_quiet=rng.choice((0.0, 0.05, 0.6)),
            replay_quiet=rng.choice((0.0, 0.3, 3.0)),
            faults=FAULTS,
        )
        deadlines = Deadlines(
            prompt_inactivity=rng.choice((1.0, 8.0)), cancel_grace=rng.choice((0.5, 3.0)), close=rng.choice((0.3, 6.0))
        )
        loading = rng.random() < 0.3
        machine = self.lib.SessionMachine("s", provider, deadlines, loading=loading)
        return MirrorSession(machine, provider, deadlines, loading)

    # stepping

    def _pass_time(self) -> None:
        """Time passes, with the timer of the shell in between."""
        until = self.now + self.rng.random() * 0.05
        if (jump := self.rng.random()) < 0.03:
            until += self.rng.random() * (12.0 if jump < 0.004 else 1.5)
        while self.session.machine.due <= until:
            self.now = max(self.now, self.session.machine.due) + self.rng.random() * LATE
            turn = self.session.turn
            self._send(events.TimePassed(0 if turn is None else turn.heard, self.session.awaiting))
        self.now = max(self.now, until)
        self._level()

    def _send(self, event: Any) -> None:
        self.step += 1
        outer, self.event = self.event, event
        session = self.session
        machine, before, over = session.machine, session.machine.state, session.over
        if session.turn is not None:
            session.turn.expected = None
        self._foresee(event)
        given = self.given = machine.handle(event, self.now)
        if not isinstance(event, events.TurnEventBase) or event.turn == session.turns:
            self.seen.add((before, type(event), machine.state))
        if type(event) is events.PromptAsked:
            self._judge_prompt()
        silent = not over or all(type(action) is actions.RefusePrompt for action in given)
        require(silent, "no action after closed", event, given)
        for action in given:
            self._judges[type(action)](action)
        self.event = outer
        if session.turn is not None and session.turn.freed:
            self._part(session, session.turn)
        self._level()

    def _send_stale(self, event: Any) -> None:
        before = self.session.machine.state
        self._send(event)
        require(not self.given, "a stale event has no effect", event, self.given)
        require(self.session.machine.state is before, "a stale event has no effect", event)

    def _part(self, session: MirrorSession, turn: MirrorTurn) -> None:
        """The turn is over for everybody."""
        require(turn.end is not None, "every turn ends exactly once: it was freed without an end", turn.number)
        require(turn.reported, "an answer is reported once: not at all", turn.number)
        if turn.sent_at is not None and turn.cancelled_at is not None:
            session.quiet_until = self.now + session.provider.cancel_quiet
        session.turn = None

    def _foresee(self, event: Any) -> None:
        """What this event changes, whatever the machine makes of it."""
        session = self.session
        turn = session.turn
        match event:
            case events.CloseAsked():
                session.closed_at = self.now if session.closed_at is None else session.closed_at
                session.sealed = session.sealed or "it was closed"
                if turn is not None and turn.sent_at is not None:
                    self._cancelled(turn)
            case events.SealAsked(why, _) if not session.over:
                session.sealed = session.sealed or why
            case events.LateEvent() if session.quiet_until > self.now:
                session.quiet_until = self.now + session.provider.cancel_quiet
            case events.TimePassed() if session.awaiting and turn is not None:
                turn.signed_at = self.now
            case _:
                pass

    def _cancelled(self, turn: MirrorTurn) -> None:
        if turn.cancelled_at is None:
            turn.cancelled_at = self.now

    # moves: the load

    def _load_answered(self) -> None:
        session = self.session
        if session.loading and session.load_answered_at is None and not session.sealed:
            session.load_answered_at = session.repeated_at = self.now
            session.loading = bool(session.provider.replay_quiet)
            self._send(events.LoadAnswered(session.found))
            require(session.loading or actions.ResumeWaiter() in self.given, "a waiter is resumed: of the load")

    def _repeated(self) -> None:
        session = self.session
        if session.loading and not session.sealed:
            session.found = self.rng.random() < 0.3
            session.repeated_at = self.now
            self._send(events.EventRepeated(session.found))

    # moves: the callers

    def _prompt(self) -> None:
        session = self.session
        free = session.turn is None and not session.loading and session.sealed is None
        if free:
            session.turns += 1
            quiet = min(session.quiet_until, self.now + QUIET_AT_MOST) > self.now
            session.turn = MirrorTurn(session.turns, self.now, quiet)
            session.unchecked.append(session.turns)
        self.free = free
        self._send(events.PromptAsked())

    def _judge_prompt(self) -> None:
        session, refused = self.session, actions.RefusePrompt() in self.given
        require(refused or not session.over, "no action after closed: a prompt was accepted")
        require(refused or not session.loading, "no prompt while loading")
        require(refused or session.sealed is None, "sealed is final: a prompt was accepted", session.sealed)
        require(refused or self.free, "a second prompt is never sent: it was not refused")
        require(not refused or not self.free, "a prompt is refused only for a reason", session)

    def _checked(self) -> None:
        session, turn = self.session, self.session.turn
        if not session.unchecked:
            return
        number = self.rng.choice(session.unchecked)
        current = turn is not None and number == turn.number
        if current and turn is not None and turn.waiting:
            return
        session.unchecked.remove(number)
        event = events.PromptChecked(number, [], None)
        if not current or turn is None:
            self._send_stale(event)
            return
        self._send(event)
        require(any(type(one) is actions.SendPrompt for one in self.given), "a checked prompt is sent", number)
        if self.rng.random() < 0.03:
            self._withdraw(turn)

    def _withdrawn(self) -> None:
        session, turn = self.session, self.session.turn
        if not session.unchecked:
            return
        number = self.rng.choice(session.unchecked)
        session.unchecked.remove(number)
        if turn is None or number != turn.number:
            self._send_stale(events.PromptWithdrawn(number, "no"))
        else:
            self._withdraw(turn)

    def _withdraw(self, turn: MirrorTurn) -> None:
        turn.sent_at = None
        self._send(events.PromptWithdrawn(turn.number, "no such directory"))
        require(turn.end == Finished(StopReason.FAILED, "no such directory"), "the end says why: withdrawn", turn.end)

    def _cancel(self) -> None:
        session, turn = self.session, self.session.turn
        if turn is None or turn.end is not None:
            return
        if turn.sent_at is not None:
            again = turn.cancelled_at is not None
            ended = turn.agent_end is not None
            self._cancelled(turn)
            self._send(events.CancelAsked(turn.number))
            told = any(type(one) is actions.TellCancel for one in self.given)
            require(told or again or ended, "a cancelled agent is told: not at once", turn.number)
        else:
            self._send(events.CancelAsked(turn.number))
            require(session.turn is None, "a cancel is answered within the grace: at once before it is sent")
            require(turn.end == Finished(StopReason.CANCELLED), "the end says why: cancelled", turn.end)

    def _seal(self) -> None:
        if self.rng.random() < 0.25:
            end = Finished(StopReason.FAILED, "dead") if self.rng.random() < 0.5 else None
            session, turn = self.session, self.session.turn
            if turn is not None:
                session.mid_turn = turn.sent_at is not None
                cancelled = StopReason.CANCELLED if turn.cancelled_at is not None else StopReason.FAILED
                turn.expected = end or Finished(cancelled, "sealed")
            before, session.loading = session.loading, False
            self._send(events.SealAsked("sealed", end))
            require(session.turn is None, "a sealed session has no turn")
            require(not before or actions.ResumeWaiter() in self.given, "a waiter is resumed: by the seal")

    def _close(self) -> None:
        session, turn = self.session, self.session.turn
        if self.rng.random() < 0.25 and session.closed_at is None:
            before, session.loading = session.loading, False
            if turn is not None and turn.end is not None:
                session.mid_turn = True
            self._send(events.CloseAsked())
            require(not before or actions.ResumeWaiter() in self.given, "a waiter is resumed: by the close")
            waits = turn is not None and turn.sent_at is not None and turn.end is None
            require(waits or session.turn is None, "a close is answered in time: at once without a turn")
            if turn is not None and turn.sent_at is None:
                require(turn.end == Finished(StopReason.CANCELLED), "the end says why: closed unsent", turn.end)

    # moves: the agent

    def _acts(self) -> None:
        turn, machine = self.session.turn, self.session.machine
        if turn is None or turn.sent_at is None:
            return
        turn.heard += 1
        turn.signed_at = self.now
        if turn.agent_end is None or self.session.provider.late_updates:
            lot = self.rng.random()
            answers, words = lot < 0.5, lot < 0.3
            untold = turn.cancelled_at is not None and not turn.told and turn.agent_end is None
            first = (words and not turn.worded) or (answers and not turn.begun)
            require(machine.attentive or not untold, "a cancelled agent is told: nobody is attentive", turn.number)
            require(machine.attentive or turn.worded, "an answer is reported once: nobody is attentive", turn.number)
            if not machine.attentive or not (first or untold):
                return
            turn.retry = untold
            turn.begun, turn.worded = turn.begun or answers, turn.worded or words
            self._send(events.AgentActed(answers, words))
            require(not turn.retry, "a cancelled agent is told: not at its next event", turn.number)
            require(turn.reported or not answers, "an answer is reported once: late", turn.number)

    def _finishes(self) -> None:
        turn = self.session.turn
        if turn is None or turn.sent_at is None or turn.agent_end is not None:
            return
        reason = self.rng.choice((StopReason.DONE, StopReason.DONE, StopReason.LIMIT, StopReason.CANCELLED))
        cause = BadDirectory("/", "gone") if self.rng.random() < 0.1 else None
        end = Finished(StopReason.FAILED, "x", cause=cause) if cause else Finished(reason)
        self._agent_ends(turn, end)
        self._send(events.AgentFinished(turn.number, end))
        self._after_agent_end(turn)

    def _refuses(self) -> None:
        session, turn = self.session, self.session.turn
        if turn is None or turn.sent_at is None or turn.agent_end is not None:
            return
        code = self.rng.choice((CANCELLED, SPOILED, FORGOTTEN, BROKEN, BROKEN, BROKEN))
        text = self.rng.choice(("no such session", "out of tokens"))
        cause: AgentFault | UnknownSession = AgentFault(provider="acp", method="prompt", code=code, message=text)
        if code in FAULTS.cancelled and turn.cancelled_at is not None:
            end = Finished(StopReason.CANCELLED)
            why = "the agent went on with a cancelled turn" if code == SPOILED else None
        else:
            forgotten = code == FORGOTTEN and "session" in text
            cause = UnknownSession(provider="acp", session_id="s") if forgotten else cause
            end = Finished(StopReason.FAILED, str(cause), cause=cause)
            why = str(cause) if forgotten else None
        session.sealed = session.sealed or why
        self._agent_ends(turn, end)
        self._send(events.PromptRefused(turn.number, code, text))
        self._after_agent_end(turn)

    def _agent_ends(self, turn: MirrorTurn, end: Finished) -> None:
        turn.agent_end, turn.agent_ended_at = end, self.now
        turn.expected = end

    def _after_agent_end(self, turn: MirrorTurn) -> None:
        end = turn.agent_end
        late = self.session.provider.late_updates and end is not None and end.cause is None
        require(late or turn.freed, "the agent's end frees the session: without late updates at once", turn.number)
        require(not late or not turn.freed, "late updates belong to their turn: it ended before them", turn.number)

    def _late(self) -> None:
        session, turn = self.session, self.session.turn
        if not session.loading and (turn is None or turn.sent_at is None):
            self._send(events.LateEvent())
            require(not self.given, "nothing of one turn is in the next: a late event had an effect", self.given)

    def _asks_us(self) -> None:
        self.session.awaiting = not self.session.awaiting

    # moves: the consumer, and what comes twice

    def _too_slow(self) -> None:
        turn = self.session.turn
        if turn is None or turn.sent_at is None or turn.end is not None or self.rng.random() < 0.6:
            return
        self._cancelled_by_us(turn)
        self._send(events.ConsumerTooSlow())
        slow = turn.end is not None and "too slow" in turn.end.detail
        require(slow, "the end says why: the consumer was too slow", turn.end)
        told = any(type(one) is actions.TellCancel for one in self.given)
        known = turn.told or turn.agent_end is not None or self.session.machine.cancel_pending
        require(told or known, "a cancelled agent is told: after its consumer was given up")

    def _cancelled_by_us(self, turn: MirrorTurn) -> None:
        """The consumer has its end; the agent is still to stop, unless it has."""
        if turn.agent_end is None:
            self._cancelled(turn)

    def _junk(self) -> None:
        """Events of turns that are over, or of none."""
        session, rng = self.session, self.rng
        running = session.turn is not None and session.turn.sent_at is not None
        old = rng.randrange(session.turns) if session.turns else 99
        end = Finished(StopReason.DONE, "of an old turn")
        stale: list[Any] = [
            events.CancelAsked(old),
            events.AgentFinished(old, end),
            events.PromptRefused(old, FORGOTTEN, "no such session"),
            events.PromptChecked(old, [], None),
            events.PromptWithdrawn(old, "old"),
        ]
        if not running:
            stale += [events.AgentActed(True, True), events.CancelTold(), events.ConsumerTooSlow()]
        if not session.awaiting:
            stale += [events.TimePassed()]  # too early
        if session.turn is None:
            now = session.turns
            stale += [events.CancelAsked(now), events.AgentFinished(now, end), events.PromptChecked(now, [], None)]
            stale += [events.PromptRefused(now, FORGOTTEN, "no session"), events.PromptWithdrawn(now, "old")]
        if session.over:
            stale += [events.SealAsked("late", end), events.CloseAsked(), events.EventRepeated(True)]
        if not session.loading:
            stale += [events.LoadAnswered(True), events.EventRepeated(True)]
        self._send_stale(rng.choice(stale))

    # judging actions

    def _current(self, what: str, action: Any) -> MirrorTurn:
        turn = self.session.turn
        require(turn is not None, what, action, self.event)
        assert turn is not None
        return turn

    def _on_RefusePrompt(self, action: Any) -> None:
        require(type(self.event) is events.PromptAsked, "a prompt is refused only for a reason: nobody asked")

    def _on_ResumeWaiter(self, _action: Any) -> None:
        session, turn = self.session, self.session.turn
        if turn is not None and turn.waiting:
            turn.waiting = False
            if type(self.event) is events.TimePassed:
                until = min(session.quiet_until, turn.claimed_at + QUIET_AT_MOST)
                require(self.now >= until - 1e-9, "late pieces have stopped before the next prompt", until, self.now)
            return
        if type(self.event) is events.TimePassed:
            require(session.loading and session.load_answered_at is not None, "a waiter is resumed: nobody waits")
            assert session.load_answered_at is not None
            quiet = session.provider.replay_quiet * (1 if session.found else MORE_QUIET)
            until = min(session.repeated_at + quiet, session.load_answered_at + REPLAY_AT_MOST)
            require(self.now >= until - 1e-9, "a replay is heard to its end", until, self.now)
            session.loading = False
        else:
            allowed = (events.LoadAnswered, events.SealAsked, events.CloseAsked)
            require(type(self.event) in allowed, "a waiter is resumed: nobody waits", self.event)

    def _on_SendPrompt(self, action: Any) -> None:
        turn = self._current("one turn at a time: a prompt of no turn was sent", action)
        ours = type(self.event) is events.PromptChecked and self.event.turn == turn.number
        require(ours, "a prompt that is not checked is not sent", self.event)
        require(turn.sent_at is None, "a second prompt is never sent: the same twice", turn.number)
        require(not self.session.loading, "no prompt while loading")
        require(self.session.sealed is None, "sealed is final: a prompt was sent", self.session.sealed)
        require(turn.end is None, "a prompt that was cancelled is never sent", turn.number)
        require(action.parts is self.event.parts, "nothing of one turn is in the next: another prompt was sent")
        turn.sent_at = turn.signed_at = self.now

    def _on_TellCancel(self, action: Any) -> None:
        turn = self._current("nothing of one turn is in the next: a cancel of no turn", action)
        require(turn.sent_at is not None, "a prompt that was never sent is not cancelled", turn.number)
        require(turn.agent_end is None, "an agent that has ended its turn is not told to cancel", turn.number)
        require(not turn.told, "a cancelled agent is told: twice", turn.number)
        self._cancelled(turn)  # also by the machine itself, after silence
        turn.retry = False
        if self.rng.random() < 0.6:
            turn.told = True
            given = self.given
            self._send(events.CancelTold())
            require(not self.given, "a stale event has no effect", self.event, self.given)
            self.given = given

    def _on_DropRequests(self, action: Any) -> None:
        turn = self.session.turn
        if action.calls:
            over = self.session.sealed is not None or turn is not None
            require(over, "calls run until the end", self.event)
        else:
            cancelled = turn is not None and turn.cancelled_at is not None
            require(cancelled, "permissions are dropped by a cancel", self.event)
            first = type(self.given[-1]) is not actions.TellCancel
            require(first, "the cancel is told before a question is answered", self.given)

    def _on_EndTurn(self, action: Any) -> None:
        turn = self._current("nothing of one turn is in the next: an end of no turn", action)
        session = self.session
        require(turn.end is None, "every turn ends exactly once: twice", turn.number)
        turn.end = end = action.finished
        if type(self.event) is events.TimePassed:
            self._judge_end_by_time(session, turn, end)
        elif turn.expected is not None:
            require(alike(end, turn.expected), "the end says why: another one", end, turn.expected)

    def _judge_end_by_time(self, session: MirrorSession, turn: MirrorTurn, end: Finished) -> None:
        if turn.agent_end is not None:
            require(alike(end, turn.agent_end), "the end says why: the agent's own", end, turn.agent_end)
        elif turn.cancelled_at is not None:
            grace = turn.cancelled_at + session.deadlines.cancel_grace
            closing = session.closed_at is not None and session.closed_at + session.deadlines.close <= self.now + 1e-9
            patient = self.now >= grace - 1e-9 or closing
            require(patient, "a cancelled agent has its grace", turn.cancelled_at, self.now)
            require(end.reason is StopReason.CANCELLED, "the end says why: a cancel that was not answered", end)
            session.sealed = session.sealed or end.detail
            session.mid_turn = True
        else:
            require(isinstance(end.cause, AgentSilent), "the end says why: silence", end)
            least = turn.signed_at + session.deadlines.prompt_inactivity
            require(self.now >= least - 1e-9, "an agent that gives signs of life is not given up", least, self.now)
            told = any(type(one) is actions.TellCancel for one in self.given)
            require(told, "a cancelled agent is told: after its silence", turn.number)
            turn.cancelled_at = self.now

    def _on_FreeSession(self, action: Any) -> None:
        turn = self._current("every turn ends exactly once: one was freed twice", action)
        require(not turn.freed, "every turn ends exactly once: freed twice", turn.number)
        kinds = [type(one) for one in self.given if one != actions.DropRequests(calls=False)]
        dropped = actions.DropRequests in kinds
        require(dropped, "requests are answered before the end: they stay open", self.given)
        if actions.EndTurn in kinds:
            first = kinds.index(actions.DropRequests) < kinds.index(actions.EndTurn)
            require(first, "requests are answered before the end: after it", self.given)
        turn.freed = True
        if type(self.event) is events.TimePassed and turn.end is not None and turn.agent_end is None:
            self.session.mid_turn = True
            self.session.sealed = self.session.sealed or self.session.machine.sealed
            patience = turn.cancelled_at is not None and self.now >= turn.cancelled_at - 1e-9
            require(patience, "a cancelled agent has its grace", self.now)
        require(action.sent == (turn.sent_at is not None), "the end is booked as it was: sent", action)
        require(action.worded == turn.worded, "the end is booked as it was: words", action, turn.worded)
        done = turn.agent_end is not None and turn.agent_end.reason in {StopReason.DONE, StopReason.LIMIT}
        broken_off = type(self.event) in {events.SealAsked, events.PromptWithdrawn} or self.session.mid_turn
        require(action.well == (done and not broken_off), "the end is booked as it was: well", action, turn.agent_end)
        if turn.agent_end is not None and type(self.event) is events.TimePassed:
            end = self.session.provider.late_updates + turn.agent_ended_at
            early = self.now >= end - 1e-9 or turn.cancelled_at is not None
            require(early, "late updates belong to their turn: it ended before them", turn.number)

    def _on_ReportAnswer(self, action: Any) -> None:
        turn = self._current("an answer is reported once: of no turn", action)
        require(not turn.reported, "an answer is reported once: twice", turn.number)
        due = turn.begun or turn.freed
        require(due, "an answer is reported once: before it began", turn.number)
        turn.reported = True

    # what must hold after every step

    def _level(self) -> None:
        session, turn, machine = self.session, self.session.turn, self.session.machine
        require(machine.sealed == session.sealed, "sealed is final: its reason", machine.sealed, session.sealed)
        require(
            machine.abandoned_mid_turn == session.mid_turn, "who was abandoned in a turn is known", session.mid_turn
        )
        running = turn is not None and turn.sent_at is not None
        wants = running and turn is not None and turn.cancelled_at is None and turn.agent_end is None
        require(machine.may_ask == wants, "a permission without a turn that can want one is declined", wants)
        if turn is None:
            self._level_without_turn(session)
        elif running:
            self._level_running(session, turn)
        elif turn.waiting:
            until = min(session.quiet_until, turn.claimed_at + QUIET_AT_MOST)
            require(self.now <= until + SLACK, "a waiter is resumed: when it is quiet", until, self.now)
            require(machine.due < math.inf, "a waiter is resumed: nothing is due")

    def _level_without_turn(self, session: MirrorSession) -> None:
        if session.over and type(self.event) is not events.PromptAsked:
            require(session.machine.due == math.inf, "no action after closed: something is due")
        if session.loading and session.load_answered_at is not None and session.sealed is None:
            quiet = session.provider.replay_quiet * (1 if session.found else MORE_QUIET)
            until = min(session.repeated_at + quiet, session.load_answered_at + REPLAY_AT_MOST)
            require(self.now <= until + SLACK, "a waiter is resumed: when the replay is over", until, self.now)

    def _level_running(self, session: MirrorSession, turn: MirrorTurn) -> None:
        limits = session.deadlines
        if session.closed_at is not None:
            until = session.closed_at + limits.close
            require(self.now <= until + SLACK, "a close is answered in time", until, self.now)
        if turn.cancelled_at is not None:
            until = turn.cancelled_at + limits.cancel_grace
            require(self.now <= until + SLACK, "a cancel is answered within the grace", until, self.now)
        if turn.agent_end is not None:
            until = turn.agent_ended_at + session.provider.late_updates
            require(self.now <= until + SLACK, "the agent's end frees the session: in time", until, self.now)
        elif turn.cancelled_at is None:
            until = turn.signed_at + limits.prompt_inactivity * (1 + 1 / TICKS)
            patient = self.now <= until + SLACK or session.awaiting
            require(patient, "a silent agent is given up in time", until, self.now)


ACTIONS = tuple(name.removeprefix("_on_") for name in dir(SessionWalk) if name.startswith("_on_"))
MOVES = (
    ("prompt", 22),
    ("checked", 24),
    ("withdrawn", 2),
    ("cancel", 6),
    ("seal", 1),
    ("close", 1),
    ("load_answered", 6),
    ("repeated", 6),
    ("acts", 30),
    ("finishes", 8),
    ("refuses", 2),
    ("late", 6),
    ("asks_us", 4),
    ("too_slow", 2),
    ("junk", 8),
)


def main() -> int:
    """`python -m tests.pool.agent.session_walk --steps 1000000`"""
    parser = argparse.ArgumentParser(prog="python -m tests.pool.agent.session_walk", description=__doc__)
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    began, steps, sessions, seed = time.perf_counter(), 0, set[Any](), given.seed
    while steps < given.steps:
        walk = SessionWalk(original, seed)
        steps += walk.run(WORLD)
        sessions |= walk.seen
        seed += 1
    moves = len(sessions)
    sys.stdout.write(
        f"{steps} steps in {seed - given.seed} worlds, {moves} moves, {time.perf_counter() - began:.1f} s\n"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
