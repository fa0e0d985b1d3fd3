"""The scribe of chat faces: one answer, told piece by piece to whoever listens, whole at its end.

Rules:
- `tell` never waits. It hears `delta` (text), `thought` (text), `item` (something that is over: a reasoning item, a
  message), `permission` (the agent waits for a decision), `notice` first of all, and one of the statuses last.
- Notices are said with the first answer, once: as items in front, and as events before everything else.
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
    """One answer to one message."""

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
        """`kept`: what of the answer is stored for those who ask the same again."""
        self.id = message_id
        self.session_id = session_id
        self.created_at = created_at
        self.notices = [notice_item(text) for text in notices]
        self.done = asyncio.Event()
        self.outcome: TurnOutcome | None = None
        self.heard = False
        """Whether the agent said anything."""
        self._tell = tell
        self._kept = kept
        self._read = read
        self._count = 0
        self._output = OutputBuilder(self._pass_on, self._begin_text, self._item_id, ())

    @property
    def text(self) -> str:
        """What was said so far."""
        return self._output.text

    @property
    def items(self) -> list[JsonObject]:
        """Notices, then everything that was said and done."""
        return [*self.notices, *self._output.items]

    def begin(self) -> ResponseRecord | None:
        """Nothing is stored of it but the conversation."""
        return None

    def started(self) -> None:
        """The message is durable."""
        self._tell("started", {"id": self.id, "session_id": self.session_id})
        for notice in self.notices:
            self._tell("notice", notice)

    def take(self, event: TurnEvent) -> None:
        """One event of the agent."""
        self.heard = True
        if isinstance(event, PermissionPending):
            self._tell("permission", event.question)
        self._output.take(event)

    def close(self, outcome: TurnOutcome, calls: Sequence[AskedCall]) -> StoredAnswer:
        """The answer is whole; or, when it could not be stored, failed after all."""
        self._output.finish(calls, complete=outcome.status is TurnStatus.COMPLETED)
        self.outcome = outcome
        return StoredAnswer(tuple(self._output.items), answer=None if self._kept is None else self._kept(self))

    def publish(self) -> None:
        """Tell the listener."""
        self._tell(self.status.value, self.document())
        self.done.set()

    @property
    def status(self) -> TurnStatus:
        """How it ended."""
        return TurnStatus.INCOMPLETE if self.outcome is None else self.outcome.status

    def document(self) -> JsonObject:
        """The whole of it, without what a protocol puts around it."""
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
    """Something the gateway says beside an answer."""
    return {"type": "notice", "text": text}
