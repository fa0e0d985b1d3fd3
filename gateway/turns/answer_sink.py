"""What a face contributes to a turn: it hears every event, and says what of the answer is to be kept.

Rules:
- `started` comes after what `begin` returned is durable, `publish` after what `close` returned is: nothing is
  acknowledged before.
- A scribe never waits and never raises for its reader's sake: a slow or vanished client costs the turn nothing.
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
    """What is stored with the assistant's message."""

    items: Sequence[JsonObject] = ()
    response: ResponseRecord | None = None
    slug: str | None = None
    answer: IdempotencyRecord | None = None
    """What a repeated request gets."""


class AnswerSink(Protocol):
    """One answer to one request."""

    def begin(self) -> ResponseRecord | None:
        """The turn starts to run. What is returned is stored with the question."""

    def started(self) -> None:
        """The question is durable: the client may hear that it is being answered."""

    def take(self, event: TurnEvent) -> None:
        """One more event."""

    def close(self, outcome: TurnOutcome, calls: Sequence[AskedCall]) -> StoredAnswer:
        """The answer is over; `calls` wait for the client."""

    def publish(self) -> None:
        """The end is durable: tell the client."""


class DiscardingSink:
    """The scribe of a part of a turn that no client listens to any more."""

    def begin(self) -> ResponseRecord | None:
        return None

    def started(self) -> None:
        """Nobody listens."""

    def take(self, event: TurnEvent) -> None:
        """Nobody listens."""

    def close(self, outcome: TurnOutcome, calls: Sequence[AskedCall]) -> StoredAnswer:  # noqa: ARG002 - nobody listens
        return StoredAnswer()

    def publish(self) -> None:
        """Nobody listens."""
