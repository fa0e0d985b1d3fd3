"""Seeded defects of the session machine: one patch each, which the walk must see by the invariant that it breaks."""

from tests.support.walks import Mutant


def mutant(name: str, seen_by: str, old: str, new: str) -> Mutant:
    return Mutant(name, "session_machine", old, new, seen_by)


MUTANTS = (
    mutant(
        "two_turns_at_a_time",
        "a second prompt is never sent",
        "events.PromptAsked: (_refuse, {RUNNING})",
        "events.PromptAsked: (_claim, {WAITING, CHECKING})",
    ),
    mutant(
        "prompted_while_it_settles",
        "a second prompt is never sent",
        "events.PromptAsked: (_refuse, {SETTLING})",
        "events.PromptAsked: (_claim, {WAITING, CHECKING})",
    ),
    mutant(
        "prompted_while_it_loads",
        "no prompt while loading",
        "events.PromptAsked: (_refuse, {LOADING})",
        "events.PromptAsked: (_claim, {WAITING, CHECKING})",
    ),
    mutant(
        "sealed_and_prompted",
        "sealed is final",
        "events.PromptAsked: (_refuse, {SEALED})",
        "events.PromptAsked: (_claim, {WAITING, CHECKING})",
    ),
    mutant(
        "closed_and_prompted",
        "no action after closed",
        "events.PromptAsked: (_refuse, {CLOSED})",
        "events.PromptAsked: (_claim, {WAITING, CHECKING})",
    ),
    mutant(
        "nothing_is_accepted",
        "a prompt is refused only for a reason",
        "events.PromptAsked: (_claim, {WAITING, CHECKING})",
        "events.PromptAsked: (_refuse, {IDLE})",
    ),
    mutant(
        "freed_without_an_end",
        "every turn ends exactly once",
        "        self._end(finished)\n        self._actions.append(actions.FreeSession",
        "        self._actions.append(actions.FreeSession",
    ),
    mutant("ended_twice", "every turn ends exactly once", "if not self.turn.ended:", "if True:"),
    mutant(
        "old_events_obeyed", "a stale event has no effect", "event.turn != self.turn.number", "event.turn > 1_000_000"
    ),
    mutant(
        "facts_carried_over",
        "every turn ends exactly once",
        "self.turn = TurnFacts(self.turn.number + 1, self._now + QUIET_AT_MOST)",
        "self.turn.number, self.turn.quiet_by = self.turn.number + 1, self._now + QUIET_AT_MOST",
    ),
    mutant(
        "words_carried_over",
        "an answer is reported once: nobody is attentive",
        "self._now + QUIET_AT_MOST)",
        "self._now + QUIET_AT_MOST, worded=self.turn.worded)",
    ),
    mutant(
        "silence_carried_over",
        "an agent that gives signs of life is not given up",
        "self._now + QUIET_AT_MOST)",
        "self._now + QUIET_AT_MOST, silent=self.turn.silent)",
    ),
    mutant(
        "silent_while_it_waits_for_us",
        "an agent that gives signs of life is not given up",
        "0 if event.waiting or event.heard",
        "0 if event.heard",
    ),
    mutant(
        "silent_while_it_talks",
        "an agent that gives signs of life is not given up",
        "0 if event.waiting or event.heard != turn.heard else",
        "0 if event.waiting else",
    ),
    mutant(
        "silence_not_noticed",
        "a silent agent is given up in time",
        "if turn.silent < SILENCE_TICKS:",
        "if turn.silent < 2 * SILENCE_TICKS:",
    ),
    mutant(
        "given_up_and_left_alone",
        "a cancelled agent is told: after its silence",
        "cause=cause))\n        return self._cancel()",
        "cause=cause))\n        return RUNNING",
    ),
    mutant(
        "slow_consumer_and_agent_left_alone",
        "not in the table",
        "return self._cancel() if self.state is RUNNING else self.state\n\n    def _cancel",
        "return self.state\n\n    def _cancel",
    ),
    mutant(
        "cancel_without_deadline",
        "a cancel is answered within the grace",
        "        self.due = self._now + self._deadlines.cancel_grace\n",
        "        self.due = NEVER\n",
    ),
    mutant(
        "patience_lost_at_once",
        "a cancelled agent has its grace",
        "        self.due = self._now + self._deadlines.cancel_grace\n",
        "        self.due = self._now + self._deadlines.cancel_grace / 4\n",
    ),
    mutant(
        "cancel_while_it_settles_waits",
        "a cancel is answered within the grace",
        "self.due = min(self.due, self._now + self._deadlines.cancel_grace)",
        "pass",
    ),
    mutant(
        "settles_past_the_grace",
        "a cancel is answered within the grace",
        "min(self._now + late, self.due if self.state is CANCELLING else NEVER)",
        "self._now + late",
    ),
    mutant(
        "agent_not_told",
        "a cancelled agent is told",
        "(actions.TellCancel(), actions.DropRequests(calls=False))",
        "(actions.DropRequests(calls=False),)",
    ),
    mutant(
        "question_answered_first",
        "the cancel is told before a question is answered",
        "(actions.TellCancel(), actions.DropRequests(calls=False))",
        "(actions.DropRequests(calls=False), actions.TellCancel())",
    ),
    mutant("told_again_and_again", "a cancelled agent is told: twice", "        self.turn.told = True\n", ""),
    mutant(
        "never_told_later",
        "a cancelled agent is told: not at its next event",
        "        if self.cancel_pending:\n",
        "        if False:\n",
    ),
    mutant(
        "inattentive_to_an_untold_cancel",
        "a cancelled agent is told: nobody is attentive",
        "return not self.turn.worded or self.cancel_pending",
        "return not self.turn.worded",
    ),
    mutant(
        "unsent_cancel_ignored",
        "not in the table",
        "-> SessionState:\n        return self._free(Finished(StopReason.CANCELLED))",
        "-> SessionState:\n        return self.state",
    ),
    mutant("sealed_for_another_reason", "sealed is final: its reason", "self.sealed or why\n", "why\n"),
    mutant("sealed_and_free", "not in the table", "else IDLE if self.sealed is None else SEALED", "else IDLE"),
    mutant("closed_and_free", "not in the table", "return CLOSED if self._closing else IDLE", "return IDLE"),
    mutant("spoiled_and_good", "sealed is final: its reason", "if event.code in reading.spoiled:", "if False:"),
    mutant(
        "late_updates_lost",
        "late updates belong to their turn",
        "if not late or finished.cause is not None:",
        "if True:",
    ),
    mutant(
        "settles_too_long",
        "the agent's end frees the session: in time",
        "min(self._now + late,",
        "min(self._now + 3 * late,",
    ),
    mutant("agents_end_forgotten", "the end says why: the agent's own", "        self.turn.finished = finished\n", ""),
    mutant(
        "not_quiet_before_the_next",
        "a waiter is resumed",
        "return WAITING if self.due > self._now else CHECKING",
        "return CHECKING",
    ),
    mutant(
        "late_events_unheard",
        "late pieces have stopped before the next prompt",
        "        if self._now < self.quiet_until:\n",
        "        if False:\n",
    ),
    mutant(
        "quiet_without_end", "a waiter is resumed: when it is quiet", "self._now + QUIET_AT_MOST", "self._now + 60.0"
    ),
    mutant(
        "quiet_after_nothing", "a waiter is resumed: nobody waits", "        if turn.cancelled:\n", "        if True:\n"
    ),
    mutant(
        "replay_without_end",
        "a waiter is resumed: when the replay is over",
        "self.due = min(self._now + quiet, self._replay_by)",
        "self.due = self._now + quiet",
    ),
    mutant("replay_cut", "a replay is heard to its end", "(1 if event.found else MORE_QUIET)", "1"),
    mutant(
        "replay_before_the_answer",
        "a waiter is resumed: nobody waits",
        "        if self.due < NEVER:",
        "        if True:",
    ),
    mutant(
        "loader_left_waiting",
        "a waiter is resumed: by the",
        "        if self.state is LOADING:\n            self._actions.append(actions.ResumeWaiter())\n",
        "",
    ),
    mutant(
        "asks_while_it_cancels",
        "a permission without a turn that can want one is declined",
        "return self.state is RUNNING",
        "return self.state in {RUNNING, CANCELLING}",
    ),
    mutant(
        "asks_while_it_settles",
        "a permission without a turn that can want one is declined",
        "return self.state is RUNNING",
        "return self.state in {RUNNING, SETTLING}",
    ),
    mutant(
        "answer_not_reported",
        "an answer is reported once: not at all",
        "        if not turn.begun:\n            self._actions.append(actions.ReportAnswer())\n",
        "",
    ),
    mutant("answer_reported_twice", "an answer is reported once: twice", "            turn.begun = True\n", ""),
    mutant(
        "abandoned_and_forgotten",
        "who was abandoned in a turn is known",
        "self.abandoned_mid_turn = self.turn.sent",
        "self.abandoned_mid_turn = False",
    ),
    mutant(
        "close_without_deadline",
        "a close is answered in time",
        "        self.due = min(self.due, self._now + self._deadlines.close)\n",
        "",
    ),
    mutant("close_waits_for_nobody", "who was abandoned in a turn is known", "if self.turn.ended:", "if False:"),
    mutant(
        "timer_obeyed_too_early",
        "a stale event has no effect",
        "if type(event) is events.TimePassed and self._now < self.due:",
        "if False:",
    ),
    mutant(
        "requests_open_at_the_end",
        "requests are answered before the end",
        "        self._actions.append(actions.DropRequests(calls=True))\n        self._end(finished)\n",
        "        self._end(finished)\n",
    ),
    mutant("unsent_booked_as_sent", "the end is booked as it was: sent", "        self.turn.sent = False\n", ""),
)
