"""Answers without an agent, and a dialect that shows only what a reader's test looks at."""

from collections.abc import Iterator

from ostler.gateway.http.frames import EventEncoder, NamedEvent, frames_of
from ostler.gateway.model.outcome import TurnOutcome, TurnStatus
from ostler.gateway.turns.answer import AnswerEvent, AnswerStream, Ended, ItemBegun
from ostler.pool.events import Text
from ostler.wire.json import JsonObject

DELTA = frames_of("delta", {}, "text")
"""The frame of a piece, by its number."""


class Deltas:
    """A dialect of pieces, and an end."""

    def events(self, event: AnswerEvent) -> Iterator[NamedEvent]:
        if isinstance(event, Ended):
            yield "last", {}

    def delta(self, begun: ItemBegun) -> tuple[str, JsonObject, str]:
        del begun
        return "delta", {}, "text"


def deltas(start: int = 0) -> EventEncoder:
    """An encoder of `Deltas`."""
    return EventEncoder(Deltas(), start)


def say(answer: AnswerStream, *pieces: str) -> None:
    """The agent says this, piece by piece."""
    for piece in pieces:
        answer.take(Text(piece))


def end(answer: AnswerStream, status: TurnStatus = TurnStatus.COMPLETED) -> None:
    """The turn ends, and is stored."""
    answer.close(TurnOutcome(status), [], 0.0)
    answer.publish()


def said(*pieces: str, start: int = 0) -> bytes:
    """The frames of these pieces."""
    return b"".join(DELTA(number, piece) for number, piece in enumerate(pieces, start))
