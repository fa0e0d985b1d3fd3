"""Server-sent events as bytes, and the encoder of the dialects whose events have names and numbers.

Rules:
- An encoder is a value: it takes the events of one answer in order, and returns frames. Each reader has its own.
- The constant part of all pieces of one text is serialised once, and a piece becomes a frame only when a reader takes
  it. A client that reads nothing then costs the memory of its text, not of its frames.
- `sequence_number` counts from 0 in steps of 1, over all frames of an answer. Frames before `start` are counted and not
  made.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Protocol

import orjson

from ostler.gateway.turns.answer import AnswerEvent, Ended, ItemBegun
from ostler.wire.json import JsonObject

FrameTemplate = Callable[[int, str], bytes]
"""Makes a frame from the number of an event and its piece of text."""
NamedEvent = tuple[str, JsonObject]


class Encoder(Protocol):
    """Translates the events of one answer into the frames of one dialect."""

    def frames(self, events: Sequence[AnswerEvent]) -> list[bytes]:
        """Return the frames of the next events."""


class EventDialect(Protocol):
    """A dialect whose events have names. It has no state."""

    def events(self, event: AnswerEvent) -> Iterable[NamedEvent]:
        """Return the events of the dialect for one event of the answer that is not a piece of text."""

    def delta(self, begun: ItemBegun) -> tuple[str, JsonObject, str]:
        """Return the name and the fields of the event for a piece of this item, and the field for the piece."""


class EventEncoder:
    """Encodes the events of an `EventDialect`, with their numbers, from number `start` on.

    `skips`: if the answer has fewer events than the client expects, its last one gets the number that is expected next.
    """

    def __init__(self, dialect: EventDialect, start: int = 0, *, skips: bool = False) -> None:
        self._dialect = dialect
        self._start = start
        self._skips = skips
        self._number = 0
        self._template: FrameTemplate | None = None

    def frames(self, events: Sequence[AnswerEvent]) -> list[bytes]:
        found: list[bytes] = []
        for event in events:
            if type(event) is str and self._template is not None:
                if self._number >= self._start:
                    found.append(self._template(self._number, event))
                self._number += 1
            else:
                self._add(event, found)
        return found

    def _add(self, event: AnswerEvent, found: list[bytes]) -> None:
        if type(event) is Ended and self._skips:
            self._number = max(self._number, self._start)
        for name, fields in self._dialect.events(event):
            if self._number >= self._start:
                found.append(frame(name, self._number, fields))
            self._number += 1
        if type(event) is ItemBegun:
            self._template = frames_of(*self._dialect.delta(event))


def frame(kind: str, number: int, fields: JsonObject) -> bytes:
    """Return an event that has a name and a number."""
    data = orjson.dumps({"type": kind, "sequence_number": number, **fields})
    return b"event: %b\ndata: %b\n\n" % (kind.encode(), data)


def chunk(document: JsonObject) -> bytes:
    """Return an event that has neither name nor number."""
    return b"data: %b\n\n" % orjson.dumps(document)


def frames_of(kind: str, fields: JsonObject, name: str) -> FrameTemplate:
    """Return a template for `frame` whose field `name` differs each time."""
    before, after = around({**fields, name: ""}, name)
    head = b'event: %b\ndata: {"type":"%b","sequence_number":' % (kind.encode(), kind.encode())

    def render(number: int, piece: str) -> bytes:
        return b"%b%d,%b%b%b\n\n" % (head, number, before[1:], orjson.dumps(piece), after)

    return render


def chunks_of(document: JsonObject, name: str) -> FrameTemplate:
    """Return a template for `chunk` of the document, in which `name` occurs once with an empty text."""
    before, after = around(document, name)

    def render(number: int, piece: str) -> bytes:  # noqa: ARG001 - chunks have no number
        return b"data: %b%b%b\n\n" % (before, orjson.dumps(piece), after)

    return render


def around(document: JsonObject, name: str) -> tuple[bytes, bytes]:
    """Return the bytes before and after an empty text. Quotes inside a string are escaped, so the text is found
    once."""
    mark = b'"%b":' % name.encode()
    before, _, after = orjson.dumps(document).partition(mark + b'""')
    return before + mark, after
