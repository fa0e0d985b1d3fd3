"""What of a session's turns is stored, and when. The session's only way to the store.

Rules:
- The question is durable before the agent hears it; the end of an answer is durable, whole, before its client does.
- A question that never reached the agent is taken back: the next turn must not find it in the conversation.
- An answer that cannot be stored is a failed one: its client is told, and the store is tried again by the next turn.
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
from ostler.gateway.turns.answer_sink import StoredAnswer
from ostler.gateway.turns.deps import SessionDeps
from ostler.gateway.turns.faults import fault
from ostler.gateway.turns.pending_calls import AskedCall
from ostler.gateway.turns.prompt import lines_of, told_entries
from ostler.gateway.turns.turn import Continuation, Turn
from ostler.wire.json import JsonObject

log = logging.getLogger(__name__)


class TurnStore:
    """Of one session."""

    def __init__(self, session_id: str, owner: str, house: SessionDeps) -> None:
        self._id = session_id
        self._owner = owner
        self._house = house
        self._store = house.store
        self._instructions: str | None = None
        """Those that hold; None: not read yet."""

    async def remember(self, turn: Turn) -> None:
        """Store the question. Not to be cut short: whoever does not know what was stored cannot take it back."""
        ask = turn.ask
        await self._house.mirrors.heal(self._id)
        if ask.again is not None:
            await self._ask_again(turn, ask.again)
            return
        held = await self.instructions()
        changed = ask.instructions if ask.instructions not in (None, held) else None
        begin = TurnBegin(self._id, question_of(ask, turn.answer_id), turn.sink.begin(), dict(ask.answers), changed)
        ids = await self._begin(turn, begin)
        turn.asked = ids[0]
        turn.undo = TakenBack(self._id, ids, tuple(begin.answers), None if changed is None else held)
        self._instructions = changed or held

    async def history(self, turn: Turn) -> tuple[HistoryLine, ...]:
        """What was said before this turn."""
        if turn.ask.history is not None:
            return (*turn.ask.history, *self._brought(turn.ask, []))
        said = [message for message in await self._store.history(self._id) if precedes(message, turn)]
        turn.timings.first = not said
        return (*lines_of(said, [item for _, _, item in turn.ask.preface]), *self._brought(turn.ask, said))

    async def untold(self, turn: Turn, known: Known | None) -> tuple[HistoryLine, ...] | None:
        """What of it an agent does not know that knows this; None where it knows other things than were said."""
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
        """What the request brings along, told after what was said."""
        return told_entries(ask.preface, [item for message in said for item in message.items], dict(ask.named))

    async def instructions(self) -> str:
        """Those that hold for the session."""
        if self._instructions is None:
            record = await self._store.get_session(self._id)
            self._instructions = (record.instructions if record else None) or ""
        return self._instructions

    async def close_answer(self, turn: Turn, outcome: TurnOutcome, calls: Sequence[AskedCall]) -> int | None:
        """Store the present answer; the id of its last message, 0 for none, None where it could not be stored."""
        kept = turn.sink.close(outcome, calls)
        text = turn.text
        turn.answered.append(text)
        turn.said.clear()
        turn.size = turn.items = 0
        turn.streams = None
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
            return 0  # of a question that no agent heard: where the store refused it, its client need not wait for more
        try:
            ids = await self._store.commit_turn(commit)
        except StoreError as error:
            log.error("the end of turn %s of session %s is not stored: %s", turn.id, self._id, error)  # noqa: TRY400 - the error says it all
            turn.sink.close(fault(error), [])
            return None
        turn.own.update(ids)
        self._house.mirrors.grew(self._id)
        return ids[-1] if ids else 0

    async def take_back(self, turn: Turn) -> None:
        """Out of the conversation with what the agent never heard, unless its client was promised an answer."""
        drained = turn.stopped is StopCause.DRAIN
        if turn.undo is None or continuity.stays(told=turn.agent is not None, receipt=turn.receipt, drained=drained):
            return
        self._instructions = None
        try:
            await self._store.take_back(turn.undo)
        except GatewayError as error:
            log.warning("session %s keeps a message that was never sent: %s", self._id, error)
        await self._house.mirrors.rewrite(self._id)

    async def _keep_unasked(self, turn: Turn, kept: StoredAnswer) -> int:
        """A question that the gateway's end took out of the queue: its client has a receipt, so it is not lost."""
        begin = TurnBegin(self._id, question_of(turn.ask, turn.answer_id), kept.response, dict(turn.ask.answers))
        try:
            await self._store.begin_turn(begin)
        except GatewayError as error:
            log.error("the question of turn %s of session %s is not stored: %s", turn.id, self._id, error)  # noqa: TRY400 - the error says it all
        return 0

    def _held(self, response: ResponseRecord | None) -> ResponseRecord | None:
        """With the instructions that held for it: a fork from it has them, whatever the session was told since."""
        if response is None or self._instructions is None:
            return response
        return replace(response, body={**response.body, HELD_INSTRUCTIONS: self._instructions})

    async def take_results(self, turn: Turn, came: Continuation) -> None:
        """Store what the client found out, and the beginning of the next answer."""
        messages = [NewMessage(Role.TOOL, [output.item], output.text, turn.answer_id) for output in came.outputs]
        answers = {output.call_id: output.text for output in came.outputs}
        await self._begin(turn, TurnBegin(self._id, messages, turn.sink.begin(), answers))

    async def give_up(self, calls: Sequence[AskedCall]) -> None:
        """Questions for permission that were settled without their client: it is told so if it answers still."""
        asked = [call.call_id for call in calls if call.permission is not None]
        if not asked:
            return
        try:
            await self._store.give_up(asked)
        except StoreError as error:
            log.warning("session %s: its store takes %s for open still: %s", self._id, ", ".join(asked), error)

    async def _ask_again(self, turn: Turn, message_id: int) -> None:
        """Take what followed the question out of the transcript, as far as it is still the last question."""
        messages = await self._store.history(self._id)
        place = next((place for place, message in enumerate(messages) if message.id == message_id), None)
        if place is None or any(message.role == Role.USER for message in messages[place + 1 :]):
            raise MovedOn(self._id)
        if place + 1 < len(messages):
            await self._store.deactivate(self._id, [message.id for message in messages[place + 1 :]])
            await self._house.mirrors.rewrite(self._id)
        turn.asked = message_id
        turn.own.add(message_id)
        await self._begin(turn, TurnBegin(self._id, (), turn.sink.begin()))

    async def _begin(self, turn: Turn, begin: TurnBegin) -> list[int]:
        """Durable, then told."""
        ids = await self._store.begin_turn(begin)
        turn.own.update(ids)
        turn.sink.started()
        return ids

    def _parked(self, calls: Sequence[AskedCall], response_id: str | None) -> list[ParkedCall]:
        now = self._house.wall()
        deadline = now + self._house.settings.client_tool_deadline
        return [
            ParkedCall(call.call_id, self._id, response_id, call.name, call.arguments, deadline, now) for call in calls
        ]


def question_of(ask: Ask, answer_id: str) -> list[NewMessage]:
    """What a request says, as messages: what it brings along, then its question."""
    brought = [NewMessage(role, [item], text, answer_id) for role, text, item in ask.preface]
    return [*brought, *([NewMessage(Role.USER, ask.items, ask.text, answer_id)] if ask.items else [])]


def precedes(message: MessageRecord, turn: Turn) -> bool:
    """Whether it was said before the turn's question."""
    return turn.asked is None or message.id < turn.asked


def message_items(text: str) -> list[JsonObject]:
    """An answer as it is stored where its face says nothing else."""
    part = {"type": "output_text", "text": text, "annotations": []}
    return [{"type": "message", "role": "assistant", "content": [part]}]
