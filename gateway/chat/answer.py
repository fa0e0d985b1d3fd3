"""Collects one answer to a chat message and passes it on piece by piece.

Rules:
- `tell` must not block. It receives `started` and each `notice` first; then `delta` (text), `thought` (text), `item` (a
  completed reasoning item or message) and `permission` (the agent waits for a decision); and last a turn status.
- Notices are delivered once, with the first answer: as its first items, and as events before those of the agent.
"""

import asyncio
from collections.abc import Callable, Sequence

from ostler.gateway.model.outcome import TurnOutcome, TurnStatus
from ostler.gateway.model.records import IdempotencyRecord, ResponseRecord
from ostler.gateway.turns.answer_sink import StoredAnswer
from ostler.gateway.turns.host_events import PermissionPending
from ostler.gateway.turns.output import OutputBuilder
from ostler.gateway.turns.pending_calls import AskedCall
from ostler.gateway.turns.usage import usage_of
from ostler.pool.events import TurnEvent
from ostler.wire.json import JsonObject
from ostler.wire.redaction import redacted

TEXTS = {"response.output_text.delta": "delta", "response.reasoning_summary_text.delta": "thought"}


class ChatAnswer:
    """The answer to one message; an `AnswerSink` of the turn."""

    def __init__(
        self,
        message_id: str,
        session_id: str,
        created_at: int,
        tell: Callable[[str, JsonObject], None],
        *,
        notices: Sequence[str] = (),
        read: int = 0,
        kept: Callable[["ChatAnswer"], IdempotencyRecord | None] | None = None,
    ) -> None:
        """`kept` makes the record that answers a repeated request with the same idempotency key."""
        self.id = message_id
        self.session_id = session_id
        self.created_at = created_at
        self.notices = [notice_item(text) for text in notices]
        self.done = asyncio.Event()
        self.outcome: TurnOutcome | None = None
        self.agent_spoke = False
        """Whether the agent has sent any event."""
        self._tell = tell
        self._kept = kept
        self._read = read
        self._count = 0
        self._output = OutputBuilder(self._pass_on, self._begin_text, self._item_id, ())

    @property
    def text(self) -> str:
        """The text of the answer so far."""
        return self._output.text

    @property
    def items(self) -> list[JsonObject]:
        """The notices, then the items of the answer."""
        return [*self.notices, *self._output.items]

    def begin(self) -> ResponseRecord | None:
        """None: a chat answer is stored only as messages of the conversation, not as a response."""
        return None

    def started(self) -> None:
        """Called when the user's message is durable."""
        self._tell("started", {"id": self.id, "session_id": self.session_id})
        for notice in self.notices:
            self._tell("notice", notice)

    def take(self, event: TurnEvent) -> None:
        """Add one event of the agent."""
        self.agent_spoke = True
        if isinstance(event, PermissionPending):
            self._tell("permission", event.question)
        self._output.take(event)

    def close(self, outcome: TurnOutcome, calls: Sequence[AskedCall]) -> StoredAnswer:
        """Complete the answer and return what to store. Called again, with a failure, if it could not be stored."""
        self._output.finish(calls, complete=outcome.status is TurnStatus.COMPLETED)
        self.outcome = outcome
        return StoredAnswer(tuple(self._output.items), answer=None if self._kept is None else self._kept(self))

    def publish(self) -> None:
        """Send the final event to `tell` and set `done`."""
        self._tell(self.status.value, self.document())
        self.done.set()

    @property
    def status(self) -> TurnStatus:
        """INCOMPLETE until the answer is closed."""
        return TurnStatus.INCOMPLETE if self.outcome is None else self.outcome.status

    def document(self) -> JsonObject:
        """The whole answer, without the envelope of any protocol."""
        outcome = self.outcome or TurnOutcome(TurnStatus.INCOMPLETE)
        usage = usage_of(outcome.usage or self._output.usage, self._read, self._output.written)
        whole: JsonObject = {
            "id": self.id,
            "created_at": self.created_at,
            "session_id": self.session_id,
            "status": outcome.status.value,
            "text": self.text,
            "items": self.items,
            "usage": usage,
        }
        if outcome.status is TurnStatus.INCOMPLETE:
            whole["incomplete_details"] = {"reason": outcome.reason}
        elif outcome.status is TurnStatus.FAILED:
            whole["error"] = {"code": outcome.code, "message": redacted(outcome.message)}
        return whole

    def _pass_on(self, kind: str, fields: JsonObject) -> None:
        if kind == "response.output_item.done":
            self._tell("item", fields["item"])

    def _begin_text(self, kind: str, fields: JsonObject) -> Callable[[str], None]:
        del fields
        what = TEXTS[kind]
        return lambda piece: self._tell(what, {"text": piece})

    def _item_id(self, prefix: str) -> str:
        self._count += 1
        return f"{prefix}_{self.id.removeprefix('smsg_')}{self._count:04x}"


def notice_item(text: str) -> JsonObject:
    """An item by which the gateway itself tells the user something."""
    return {"type": "notice", "text": text}
