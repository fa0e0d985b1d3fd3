"""Server-sent events as bytes: whole frames, and templates for the pieces of a text.

Rule: the constant part of all pieces of one text is serialised once, and a piece becomes a frame only when a reader
takes it. A client that reads nothing then costs the memory of its text, not of its frames.
"""

from collections.abc import Callable

import orjson

from ostler.wire.json import JsonObject

FrameTemplate = Callable[[int, str], bytes]
"""Makes a frame from the number of an event and its piece of text."""


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
