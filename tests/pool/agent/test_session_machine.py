"""What a session decides, as a dialogue: an event, and the actions that it causes."""

from dataclasses import replace
from typing import Any

import pytest

from ostler.pool.agent import session_actions as actions
from ostler.pool.agent import session_events as events
from ostler.pool.agent.session_events import SessionState
from ostler.pool.agent.session_machine import SessionMachine
from ostler.pool.errors import AgentSilent
from ostler.pool.events import Finished, StopReason
from ostler.pool.launch.settings import Deadlines
from ostler.pool.providers.acp import PROVIDER as ACP

DONE = Finished(StopReason.DONE)
GIVEN = {"cancel_quiet": 0.5, "late_updates": 0.0, "replay_quiet": 0.3}


class Dialogue:
    """One machine and its clock."""

    def __init__(self, *, loading: bool = False, **traits: Any) -> None:
        provider = replace(ACP, **(GIVEN | traits))
        deadlines = Deadlines(prompt_inactivity=8.0, cancel_grace=2.0, close=1.0)
        self.machine = SessionMachine("s", provider, deadlines, loading=loading)
        self.now = 100.0

    def say(self, event: events.SessionEvent) -> list[str]:
        """The names of the actions."""
        return [type(action).__name__ for action in self.actions(event)]

    def actions(self, event: events.SessionEvent) -> list[actions.SessionAction]:
        return self.machine.handle(event, self.now)

    def wake(self, heard: int = 0) -> list[str]:
        """Go to the deadline."""
        self.now = self.machine.due
        return self.say(events.TimePassed(heard))

    def prompt(self) -> int:
        """Send a prompt; the number of its turn."""
        self.say(events.PromptAsked())
        number = self.machine.turn.number
        assert self.say(events.PromptChecked(number, [], None)) == ["SendPrompt"]
        return number

    @property
    def state(self) -> SessionState:
        return self.machine.state


ENDED = ["DropRequests", "EndTurn", "FreeSession"]


def test_a_turn_from_claim_to_end() -> None:
    session = Dialogue()
    assert session.say(events.PromptAsked()) == []
    assert session.state is SessionState.CHECKING
    assert session.say(events.PromptChecked(1, [], None)) == ["SendPrompt"]
    assert session.say(events.AgentActed(answers=True, words=False)) == ["ReportAnswer"]
    assert session.say(events.AgentActed(answers=True, words=True)) == []
    assert not session.machine.attentive
    assert session.actions(events.AgentFinished(1, DONE)) == [
        actions.DropRequests(calls=True),
        actions.EndTurn(DONE),
        actions.FreeSession(sent=True, well=True, worded=True),
    ]
    assert session.state is SessionState.IDLE


def test_w40d_patience_ends_with_the_grace_and_the_session_is_sealed() -> None:
    session = Dialogue()
    turn = session.prompt()
    assert session.say(events.CancelAsked(turn)) == ["TellCancel", "DropRequests"]
    assert session.machine.due == session.now + 2.0
    assert session.wake() == [*ENDED, "ReportAnswer"]
    assert session.machine.sealed == "the agent did not end the turn within 2.0 s after it was cancelled"
    assert session.machine.abandoned_mid_turn
    assert session.say(events.PromptAsked()) == ["RefusePrompt"]


def test_an_agent_that_cannot_be_told_yet_is_told_at_its_next_event() -> None:
    session = Dialogue()
    turn = session.prompt()
    session.say(events.CancelAsked(turn))
    assert session.say(events.AgentActed(answers=False, words=False)) == ["TellCancel"]
    session.say(events.CancelTold())
    assert session.say(events.AgentActed(answers=False, words=False)) == []


def test_a_silent_agent_is_given_up_a_quarter_late_at_most() -> None:
    session = Dialogue()
    session.prompt()
    began = session.now
    assert [session.wake(heard=1) for _ in range(4)] == [[], [], [], []]
    assert session.wake(heard=1) == ["EndTurn", "TellCancel", "DropRequests"]
    assert session.now == began + 10.0
    assert session.state is SessionState.CANCELLING
    assert session.say(events.AgentFinished(1, DONE)) == ["DropRequests", "FreeSession", "ReportAnswer"]


def test_the_end_of_a_silent_turn_has_its_cause() -> None:
    session = Dialogue()
    session.prompt()
    for _ in range(3):
        session.wake()
    session.now = session.machine.due
    end = session.actions(events.TimePassed())[0]
    assert isinstance(end, actions.EndTurn)
    assert isinstance(end.finished.cause, AgentSilent)


def test_w40c_a_prompt_after_a_cancel_waits_until_late_events_have_stopped() -> None:
    session = Dialogue()
    turn = session.prompt()
    session.say(events.CancelAsked(turn))
    session.say(events.AgentFinished(turn, Finished(StopReason.CANCELLED)))
    session.say(events.PromptAsked())
    assert session.state is SessionState.WAITING
    for _ in range(9):
        session.now += 0.1
        session.say(events.LateEvent())
    assert session.machine.due == 101.0, "and no longer than a second"
    assert session.wake() == ["ResumeWaiter"]
    assert session.state is SessionState.CHECKING


def test_w40a_late_updates_belong_to_their_turn() -> None:
    session = Dialogue(late_updates=0.2)
    turn = session.prompt()
    assert session.say(events.AgentFinished(turn, DONE)) == []
    assert not session.machine.may_ask
    assert session.wake() == [*ENDED, "ReportAnswer"]


def test_a_replay_ends_with_quiet_and_sooner_once_what_was_said_last_was_found() -> None:
    session = Dialogue(loading=True)
    assert session.say(events.EventRepeated(found=False)) == []
    assert session.machine.due == float("inf"), "before the agent's answer nothing ends it"
    session.say(events.LoadAnswered(found=False))
    assert session.machine.due == pytest.approx(101.5)
    assert session.say(events.PromptAsked()) == ["RefusePrompt"]
    session.say(events.EventRepeated(found=True))
    assert session.machine.due == pytest.approx(100.3)
    assert session.wake() == ["ResumeWaiter"]
    assert session.state is SessionState.IDLE


@pytest.mark.parametrize("closing", [False, True])
def test_a_cancel_before_the_prompt_is_sent_ends_the_turn_at_once(closing: bool) -> None:
    session = Dialogue()
    session.say(events.PromptAsked())
    ended = session.say(events.CloseAsked() if closing else events.CancelAsked(1))
    assert ended == [*ENDED, "ReportAnswer"]
    assert session.say(events.PromptChecked(1, [], None)) == []
    assert session.state is (SessionState.CLOSED if closing else SessionState.IDLE)
