"""The dialect of chat surfaces: an answer as a session message, its events, and both again from a stored message.

Rules:
- Pure. A chat surface reads an `AnswerStream` by `MessageEvents`: `started` and each `notice` first; then `delta`
  (text), `thought` (text), `item` (a completed item) and `permission` (the agent waits for a decision); and last the
  status of the turn, with the whole message.
- Notices are delivered once, with the first answer: as its first items, and as events before those of the agent.
"""

from collections.abc import Callable, Iterator, Sequence

from ostler.gateway.chat.commands.registry import CommandKind
from ostler.gateway.model.outcome import TurnOutcome, TurnStatus
from ostler.gateway.turns.answer import (
    Announced,
    AnswerEvent,
    AnswerStream,
    CallAdded,
    Ended,
    ItemBegun,
    ItemDone,
    ItemKind,
    Started,
)
from ostler.gateway.turns.host_events import PermissionPending
from ostler.wire.json import JsonObject
from ostler.wire.redaction import redacted

PREFIX = "session.message."


class MessageForm:
    """The answer to one message."""

    def __init__(
        self, message_id: str, session_id: str, created_at: int, *, notices: Sequence[str] = (), read: int = 0
    ) -> None:
        """`read`: the characters of the question."""
        self.session_id = session_id
        self.events = MessageEvents(message_id, session_id, [notice_item(text) for text in notices], self.document)
        self._created_at = created_at
        self._read = read

    def document(self, end: Ended) -> JsonObject:
        """Return the whole answer."""
        outcome, events = end.outcome, self.events
        fields: JsonObject = {
            "id": events.id,
            "created_at": self._created_at,
            "session_id": self.session_id,
            "status": outcome.status.value,
            "text": end.text,
            "items": [*events.notices, *end.items],
            "usage": end.counts(self._read),
        }
        if outcome.status is TurnStatus.INCOMPLETE:
            fields["incomplete_details"] = {"reason": outcome.reason}
        elif outcome.status is TurnStatus.FAILED:
            fields["error"] = {"code": outcome.code, "message": redacted(outcome.message)}
        return message_document(CommandKind.ANSWER, fields)


class MessageEvents:
    """The events of a message; `final` returns the whole of it."""

    def __init__(
        self,
        message_id: str,
        session_id: str | None,
        notices: Sequence[JsonObject],
        final: Callable[[Ended], JsonObject],
    ) -> None:
        self.id = message_id
        self.notices = notices
        self._session_id = session_id
        self._final = final

    def events(self, event: AnswerEvent) -> Iterator[tuple[str, JsonObject]]:
        match event:
            case Started():
                yield f"{PREFIX}started", {"id": self.id, "session_id": self._session_id}
                for notice in self.notices:
                    yield f"{PREFIX}notice", {"notice": notice}
            case ItemDone(item=item) | CallAdded(item=item):
                yield f"{PREFIX}item", {"item": item}
            case PermissionPending(question=question):
                yield f"{PREFIX}permission", {"permission": question}
            case Ended():
                message = self._final(event)
                yield f"{PREFIX}{message['status']}", {"message": message}

    def delta(self, begun: ItemBegun) -> tuple[str, JsonObject, str]:
        return f"{PREFIX}{'delta' if begun.kind is ItemKind.MESSAGE else 'thought'}", {}, "text"


def stored_message(message: JsonObject) -> AnswerStream:
    """Return the answer that a message was: its text in one piece. A reply of the gateway itself has only an end."""
    events: list[AnswerEvent] = [Announced()]
    if message["kind"] == CommandKind.ANSWER:
        events += [Started(), ItemBegun(ItemKind.MESSAGE, "", 0), message["text"]]
    return AnswerStream.of([*events, Ended(TurnOutcome(TurnStatus.COMPLETED))])


def stored_events(message: JsonObject) -> MessageEvents:
    """Return the events of `stored_message`."""
    return MessageEvents(message["id"], message["session_id"], (), lambda _: message)


def message_document(kind: str, fields: JsonObject) -> JsonObject:
    """Return a message as the API shows it."""
    return {"object": "session.message", "kind": kind, **fields}


def notice_item(text: str) -> JsonObject:
    """Return an item by which the gateway itself tells the user something."""
    return {"type": "notice", "text": text}
