"""Server-sent events as bytes: whole ones, and moulds for the pieces of a text.

Rule: what surrounds every piece of one text is written down once, and a piece becomes a frame when somebody reads it. A
client that takes nothing then costs what its text costs, not what its frames would.
"""

from collections.abc import Callable

import orjson

from ostler.wire.json import JsonObject

FrameTemplate = Callable[[int, str], bytes]
"""The number of an event and its piece make a frame."""


def frame(kind: str, number: int, fields: JsonObject) -> bytes:
    """One event that has a name and a number."""
    data = orjson.dumps({"type": kind, "sequence_number": number, **fields})
    return b"event: %b\ndata: %b\n\n" % (kind.encode(), data)


def chunk(document: JsonObject) -> bytes:
    """One event that has neither."""
    return b"data: %b\n\n" % orjson.dumps(document)


def frames_of(kind: str, fields: JsonObject, name: str) -> FrameTemplate:
    """As `frame` with one field more, `name`, that is another one each time."""
    before, after = around({**fields, name: ""}, name)
    head = b'event: %b\ndata: {"type":"%b","sequence_number":' % (kind.encode(), kind.encode())

    def render(number: int, piece: str) -> bytes:
        return b"%b%d,%b%b%b\n\n" % (head, number, before[1:], orjson.dumps(piece), after)

    return render


def chunks_of(document: JsonObject, name: str) -> FrameTemplate:
    """As `chunk` of the document, in which `name` stands once and empty."""
    before, after = around(document, name)

    def cast(number: int, piece: str) -> bytes:  # noqa: ARG001 - chunks have no number
        return b"data: %b%b%b\n\n" % (before, orjson.dumps(piece), after)

    return cast


def around(document: JsonObject, name: str) -> tuple[bytes, bytes]:
    """What stands before and behind an empty text. Inside of a string its quotes would be escaped: it is found once."""
    mark = b'"%b":' % name.encode()
    before, _, after = orjson.dumps(document).partition(mark + b'""')
    return before + mark, after
