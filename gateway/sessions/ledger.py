"""What of a session's turns is stored, and when. The session's only way to the store.

Rules:
- The question is durable before the agent hears it; the end of an answer is durable, whole, before its client does.
- A question that never reached the agent is taken back: the next turn must not find it in the conversation.
- An answer that cannot be stored is a failed one: its client is told, and the store is tried again by the next turn.
"""

import asyncio
import logging
from collections.abc import Sequence

from ostler.gateway.errors import GatewayError, StoreError
from ostler.gateway.records import NewMessage, ParkedCall, Role, SessionChange, TurnCommit
from ostler.gateway.sessions.ask import Ask, Line
from ostler.gateway.sessions.calls import AskedCall
from ostler.gateway.sessions.errors import MovedOn
from ostler.gateway.sessions.faults import fault
from ostler.gateway.sessions.house import House
from ostler.gateway.sessions.outcome import Outcome, Status
from ostler.gateway.sessions.prompt import lines_of
from ostler.gateway.sessions.turn import Continuation, Turn
from ostler.wire.json import JsonObject

log = logging.getLogger(__name__)


class Ledger:
    """Of one session."""

    def __init__(self, session_id: str, owner: str, house: House) -> None:
        self._id = session_id
        self._owner = owner
        self._house = house
        self._store = house.store
        self._instructions: str | None = None
        """Those that hold; None: not read yet."""

    async def remember(self, turn: Turn) -> int:
        """Store the question. The id of the message before it, 0 where there is none."""
        ask = turn.ask
        await self._house.mirrors.heal(self._id)
        if ask.again is not None:
            return await self._ask_again(turn, ask.again)
        before = await self._store.history(self._id, last=1)
        await self._instruct(ask)
        brought = [NewMessage(role, [item], text) for role, text, item in ask.preface]
        asked = [NewMessage(Role.USER, ask.items, ask.text)] if ask.items else []
        ids = await self._begin(turn, [*brought, *asked])
        turn.asked = ids[0]
        return before[-1].id if before else 0

    async def history(self, turn: Turn) -> tuple[Line, ...]:
        """What was said before this turn."""
        messages = await self._store.history(self._id)
        before = [message for message in messages if turn.asked is None or message.id < turn.asked]
        return tuple(lines_of(before, [item for _, _, item in turn.ask.preface]))

    async def instructions(self) -> str:
        """Those that hold for the session."""
        if self._instructions is None:
            record = await self._store.get_session(self._id)
            self._instructions = (record.instructions if record else None) or ""
        return self._instructions

    async def close_answer(self, turn: Turn, outcome: Outcome, calls: Sequence[AskedCall]) -> int | None:
        """Store the present answer; the id of its last message, 0 for none, None where it could not be stored."""
        kept = turn.scribe.close(outcome, calls)
        text = turn.text
        turn.answered.append(text)
        turn.said.clear()
        turn.size = turn.items = 0
        turn.streams = None
        response_id = None if kept.response is None else kept.response.id
        said = [NewMessage(Role.ASSISTANT, kept.items or message_items(text), text, response_id or turn.id)]
        silent = turn.ask.again is not None and outcome.status is Status.FAILED and not text
        commit = TurnCommit(
            self._id,
            said if turn.agent is not None and not silent else (),
            kept.response,
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
            turn.scribe.close(fault(error), [])
            return None
        self._house.mirrors.grew(self._id)
        return ids[-1] if ids else 0

    async def take_back(self, turn: Turn) -> None:
        """Out of the conversation with what the agent never heard."""
        if turn.asked is None or turn.ask.again is not None:
            return
        try:
            await self._store.deactivate_from(self._id, turn.asked)
        except GatewayError as error:
            log.warning("session %s keeps a message that was never sent: %s", self._id, error)
        await self._house.mirrors.rewrite(self._id)

    async def take_results(self, turn: Turn, came: Continuation) -> None:
        """Store what the client found out, and the beginning of the next answer.

        A client may send results of other calls along. Those of another session stay open.
        """
        for output in came.outputs:
            asked = await self._store.parked_call(output.call_id)
            if asked is not None and asked.session_id == self._id:
                await self._store.answer(output.call_id, output.text)
        await self._begin(turn, [NewMessage(Role.TOOL, [output.item], output.text) for output in came.outputs])

    async def give_up(self, calls: Sequence[AskedCall]) -> None:
        """Questions for permission that were settled without their client: it is told so if it answers still."""
        asked = [call.call_id for call in calls if call.permission is not None]
        if not asked:
            return
        try:
            await self._store.give_up(asked)
        except StoreError as error:
            log.warning("session %s: its store takes %s for open still: %s", self._id, ", ".join(asked), error)

    async def last(self) -> int:
        """The id of the last message, 0 where there is none."""
        messages = await self._store.history(self._id, last=1)
        return messages[-1].id if messages else 0

    async def _ask_again(self, turn: Turn, message_id: int) -> int:
        """Take what followed the question out of the transcript, as far as it is still the last question."""
        messages = await self._store.history(self._id)
        place = next((place for place, message in enumerate(messages) if message.id == message_id), None)
        if place is None or any(message.role == Role.USER for message in messages[place + 1 :]):
            raise MovedOn(self._id)
        if place + 1 < len(messages):
            await self._store.deactivate_from(self._id, messages[place + 1].id)
            await self._house.mirrors.rewrite(self._id)
        turn.asked = message_id
        await self._begin(turn, [])
        return messages[place - 1].id if place else 0

    async def _begin(self, turn: Turn, messages: Sequence[NewMessage]) -> list[int]:
        """Both at once, so that they share one write to the disk. Neither is worth anything to the client alone."""
        record = turn.scribe.begin()
        if record is None:
            ids = await self._store.append(self._id, messages) if messages else []
        else:
            ids, _ = await asyncio.gather(self._store.append(self._id, messages), self._store.save_response(record))
        turn.scribe.started()
        return ids

    async def _instruct(self, ask: Ask) -> None:
        if ask.instructions is not None and ask.instructions != await self.instructions():
            await self._store.update_session(self._id, SessionChange(instructions=ask.instructions))
            self._instructions = ask.instructions

    def _parked(self, calls: Sequence[AskedCall], response_id: str | None) -> list[ParkedCall]:
        now = self._house.wall()
        deadline = now + self._house.settings.client_tool_deadline
        return [
            ParkedCall(call.call_id, self._id, response_id, call.name, call.arguments, deadline, now) for call in calls
        ]


def message_items(text: str) -> list[JsonObject]:
    """An answer as it is stored where its face says nothing else."""
    part = {"type": "output_text", "text": text, "annotations": []}
    return [{"type": "message", "role": "assistant", "content": [part]}]
