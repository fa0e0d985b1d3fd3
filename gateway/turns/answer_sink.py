"""What a surface contributes to a turn: it receives every event, and returns what to store of the answer.

Rules:
- `started` is called after what `begin` returned is durable, `publish` after what `close` returned is: nothing is
  acknowledged before it is durable.
- A sink never waits and never raises because of its client: a slow or disconnected client does not affect the turn.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from ostler.gateway.model.outcome import TurnOutcome
from ostler.gateway.model.records import IdempotencyRecord, ResponseRecord
from ostler.gateway.turns.pending_calls import AskedCall
from ostler.pool.events import TurnEvent
from ostler.wire.json import JsonObject


@dataclass(frozen=True, slots=True)
class StoredAnswer:
    """What to store at the end of an answer, with the assistant's message."""

    items: Sequence[JsonObject] = ()
    response: ResponseRecord | None = None
    slug: str | None = None
    answer: IdempotencyRecord | None = None
    """The answer that a repeated request gets."""


class AnswerSink(Protocol):
    """Receives the events of one answer to one request, and writes that answer."""

    def begin(self) -> ResponseRecord | None:
        """The turn starts. The returned record is stored with the question."""

    def started(self) -> None:
        """The question is durable: the client may be told that it is being answered."""

    def take(self, event: TurnEvent) -> None:
        """Receive the next event of the turn."""

    def close(self, outcome: TurnOutcome, calls: Sequence[AskedCall]) -> StoredAnswer:
        """The answer is over; `calls` now wait for the client. Return what to store."""

    def publish(self) -> None:
        """The end of the answer is durable: tell the client."""


class DiscardingSink:
    """The sink of a turn, or of a part of it, that no client reads."""

    def begin(self) -> ResponseRecord | None:
        return None

    def started(self) -> None:
        pass

    def take(self, event: TurnEvent) -> None:
        pass

    def close(self, outcome: TurnOutcome, calls: Sequence[AskedCall]) -> StoredAnswer:  # noqa: ARG002 - keeps nothing
        return StoredAnswer()

    def publish(self) -> None:
        pass
