"""What is stored of a session's turns, and when.

Rules:
- A session reaches the store only through this class.
- The question is durable before the agent gets it; the end of an answer is durable as a whole before its client gets
  it.
- A question that never reached the agent is taken back: the next turn must not find it in the conversation.
- An answer that cannot be stored is a failed one: its client is told, and the next turn tries the store again.
"""

import logging
from collections.abc import Sequence
from dataclasses import replace

from ostler.gateway.model import continuity
from ostler.gateway.model.ask import Ask, HistoryLine
from ostler.gateway.model.continuity import Known
from ostler.gateway.model.errors import GatewayError, MovedOn, StoreError
from ostler.gateway.model.outcome import StopCause, TurnOutcome, TurnStatus
from ostler.gateway.model.records import (
    HELD_INSTRUCTIONS,
    MessageRecord,
    NewMessage,
    ParkedCall,
    ResponseRecord,
    Role,
    TakenBack,
    TurnBegin,
    TurnCommit,
)
from ostler.gateway.turns.answer import StoredAnswer
from ostler.gateway.turns.deps import SessionDeps
from ostler.gateway.turns.faults import fault
from ostler.gateway.turns.pending_calls import AskedCall
from ostler.gateway.turns.prompt import lines_of, told_entries
from ostler.gateway.turns.turn import Continuation, Turn
from ostler.wire.json import JsonObject

log = logging.getLogger(__name__)


class TurnStore:
    """Stores the turns of one session."""

    def __init__(self, session_id: str, owner: str, deps: SessionDeps) -> None:
        self._id = session_id
        self._owner = owner
        self._deps = deps
        self._store = deps.store
        self._instructions: str | None = None
        """The instructions of the session; None: not read yet."""

    async def remember(self, turn: Turn) -> None:
        """Store the question. Must not be cancelled: a caller that does not know what was stored cannot take it
        back."""
        ask = turn.ask
        await self._deps.mirrors.heal(self._id)
        if ask.again is not None:
            await self._ask_again(turn, ask.again)
            return
        held = await self.instructions()
        changed = ask.instructions if ask.instructions not in (None, held) else None
        begin = TurnBegin(self._id, question_of(ask, turn.answer_id), turn.answer.opening, dict(ask.answers), changed)
        ids = await self._begin(turn, begin)
        turn.asked = ids[0]
        turn.undo = TakenBack(self._id, ids, tuple(begin.answers), None if changed is None else held)
        self._instructions = changed or held

    async def history(self, turn: Turn) -> tuple[HistoryLine, ...]:
        """Return what was said before this turn."""
        if turn.ask.history is not None:
            return (*turn.ask.history, *self._brought(turn.ask, []))
        said = [message for message in await self._store.history(self._id) if precedes(message, turn)]
        turn.timings.first = not said
        return (*lines_of(said, [item for _, _, item in turn.ask.preface]), *self._brought(turn.ask, said))

    async def untold(self, turn: Turn, known: Known | None) -> tuple[HistoryLine, ...] | None:
        """Return the part of `history` that an agent with this knowledge does not have; None if it knows something that
        is not in the transcript."""
        if known is None or turn.ask.history is not None:
            return None
        behind = await self._store.history(self._id, after=known.through)
        tail = [message for message in behind if precedes(message, turn)]
        left = known.untold([message.id for message in tail])
        if left is None:
            return None
        coming = [item for _, _, item in turn.ask.preface]
        told = lines_of([message for message in tail if message.id in left], coming, tail)
        return (*told, *self._brought(turn.ask, tail))

    @staticmethod
    def _brought(ask: Ask, said: Sequence[MessageRecord]) -> list[HistoryLine]:
        """Return the messages that the request brings, which are told after the stored ones."""
        return told_entries(ask.preface, [item for message in said for item in message.items], dict(ask.named))

    async def instructions(self) -> str:
        """Return the instructions of the session, "" if it has none."""
        if self._instructions is None:
            record = await self._store.get_session(self._id)
            self._instructions = (record.instructions if record else None) or ""
        return self._instructions

    async def close_answer(self, turn: Turn, outcome: TurnOutcome, calls: Sequence[AskedCall]) -> int | None:
        """Store the present answer. Return the id of its last message, 0 if there is none, None if it could not be
        stored."""
        kept = turn.answer.close(outcome, calls, self._deps.wall())
        text = turn.answer.text
        turn.answered.append(text)
        response_id = None if kept.response is None else kept.response.id
        stays = continuity.stays(
            told=turn.agent is not None, receipt=turn.receipt, drained=turn.stopped is StopCause.DRAIN
        )
        if stays and turn.agent is None and turn.asked is None:
            return await self._keep_unasked(turn, kept)
        said = [NewMessage(Role.ASSISTANT, kept.items or message_items(text), text, response_id or turn.answer_id)]
        silent = turn.ask.again is not None and outcome.status is TurnStatus.FAILED and not text
        commit = TurnCommit(
            self._id,
            said if turn.agent is not None and not (silent or turn.left_open) else (),
            self._held(kept.response),
            kept.slug,
            self._owner,
            self._parked(calls, response_id),
            kept.answer,
        )
        if turn.agent is None and kept.response is None and kept.answer is None:
            return 0  # No agent got this question. If the store refused it, its client need not wait for more.
        try:
            ids = await self._store.commit_turn(commit)
        except StoreError as error:
            log.error("the end of turn %s of session %s is not stored: %s", turn.id, self._id, error)  # noqa: TRY400 - the error says it all
            turn.answer.close(fault(error), [], self._deps.wall())
            return None
        turn.own.update(ids)
        self._deps.mirrors.grew(self._id)
        return ids[-1] if ids else 0

    async def take_back(self, turn: Turn) -> None:
        """Undo a question that the agent never got, unless its client was promised an answer."""
        drained = turn.stopped is StopCause.DRAIN
        if turn.undo is None or continuity.stays(told=turn.agent is not None, receipt=turn.receipt, drained=drained):
            return
        self._instructions = None
        try:
            await self._store.take_back(turn.undo)
        except GatewayError as error:
            log.warning("session %s keeps a message that was never sent: %s", self._id, error)
        await self._deps.mirrors.rewrite(self._id)

    async def _keep_unasked(self, turn: Turn, kept: StoredAnswer) -> int:
        """Store a question that the gateway's shutdown took out of the queue: its client has a receipt, so it must not
        be lost."""
        begin = TurnBegin(self._id, question_of(turn.ask, turn.answer_id), kept.response, dict(turn.ask.answers))
        try:
            await self._store.begin_turn(begin)
        except GatewayError as error:
            log.error("the question of turn %s of session %s is not stored: %s", turn.id, self._id, error)  # noqa: TRY400 - the error says it all
        return 0

    def _held(self, response: ResponseRecord | None) -> ResponseRecord | None:
        """Add the instructions that applied to the response: a fork from it gets them, even if the session has others
        by then."""
        if response is None or self._instructions is None:
            return response
        return replace(response, body={**response.body, HELD_INSTRUCTIONS: self._instructions})

    async def take_results(self, turn: Turn, came: Continuation) -> None:
        """Store the client's results, and the beginning of the next answer."""
        messages = [NewMessage(Role.TOOL, [output.item], output.text, turn.answer_id) for output in came.outputs]
        answers = {output.call_id: output.text for output in came.outputs}
        await self._begin(turn, TurnBegin(self._id, messages, turn.answer.opening, answers))

    async def give_up(self, calls: Sequence[AskedCall]) -> None:
        """Close permission requests that were settled without their client, so that a late answer is refused."""
        asked = [call.call_id for call in calls if call.permission is not None]
        if not asked:
            return
        try:
            await self._store.give_up(asked)
        except StoreError as error:
            log.warning("session %s: its store takes %s for open still: %s", self._id, ", ".join(asked), error)

    async def _ask_again(self, turn: Turn, message_id: int) -> None:
        """Remove what followed the question from the transcript. Raises `MovedOn` if it is not the last question any
        more."""
        messages = await self._store.history(self._id)
        place = next((place for place, message in enumerate(messages) if message.id == message_id), None)
        if place is None or any(message.role == Role.USER for message in messages[place + 1 :]):
            raise MovedOn(self._id)
        if place + 1 < len(messages):
            await self._store.deactivate(self._id, [message.id for message in messages[place + 1 :]])
            await self._deps.mirrors.rewrite(self._id)
        turn.asked = message_id
        turn.own.add(message_id)
        await self._begin(turn, TurnBegin(self._id, (), turn.answer.opening))

    async def _begin(self, turn: Turn, begin: TurnBegin) -> list[int]:
        """Store the beginning of an answer; only then tell its readers."""
        ids = await self._store.begin_turn(begin)
        turn.own.update(ids)
        turn.answer.start()
        return ids

    def _parked(self, calls: Sequence[AskedCall], response_id: str | None) -> list[ParkedCall]:
        now, deps = self._deps.wall(), self._deps
        until = {True: now + deps.permits.deadline, False: now + deps.settings.client_tool_deadline}
        return [
            ParkedCall(
                call.call_id, self._id, response_id, call.name, call.arguments, until[call.permission is not None], now
            )
            for call in calls
        ]


def question_of(ask: Ask, answer_id: str) -> list[NewMessage]:
    """Return the messages of a request: those it brings, then its question."""
    brought = [NewMessage(role, [item], text, answer_id) for role, text, item in ask.preface]
    return [*brought, *([NewMessage(Role.USER, ask.items, ask.text, answer_id)] if ask.items else [])]


def precedes(message: MessageRecord, turn: Turn) -> bool:
    """Whether the message was said before the turn's question."""
    return turn.asked is None or message.id < turn.asked


def message_items(text: str) -> list[JsonObject]:
    """Return an answer as it is stored if its surface defines no items."""
    part = {"type": "output_text", "text": text, "annotations": []}
    return [{"type": "message", "role": "assistant", "content": [part]}]
