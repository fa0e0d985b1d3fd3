"""Counts the values of a JSON text before anything is built from them.

Rules:
- The text may come in pieces, cut anywhere. Work is linear in the bytes and stops where `limit` is passed.
- The count is never below the number of values, less one: it is the number of commas and opening brackets outside of
  strings. Strings without commas between them are counted too: such a text is no JSON, and must not cost more than one
  that is.
- The reason: a text of 10 MiB contains up to 5 million values, which take a second to build and 60 to 300 times their
  own size in memory, while a text of the same size with one long string takes milliseconds.
"""

PIECE = 64 * 1024
"""Bytes that are examined in one step."""
FEW = 64
_COUNTED = b',[{"'
_REST = bytes(byte for byte in range(256) if byte not in _COUNTED)


class ValueTally:
    """The count of one text."""

    __slots__ = ("_escaped", "_inside", "_limit", "_strings", "_values")

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._values = 0
        self._strings = 0
        self._inside = 0
        """1 if the next byte is inside a string."""
        self._escaped = False
        """Whether the last byte was a backslash that escapes the next byte."""

    @property
    def exceeded(self) -> bool:
        """Whether there are more values than the limit. An object has a key for each value: two strings each."""
        return self._values > self._limit or self._strings > 4 * self._limit

    def add(self, text: bytes) -> bool:
        """Count the next piece of the text. False once there are too many values; the rest is not examined then."""
        for start in range(0, len(text), PIECE):
            self._add(text[start : start + PIECE])
            if self.exceeded:
                return False
        return not self.exceeded

    def _add(self, piece: bytes) -> None:
        if self._escaped:
            piece = piece[1:]
        if b"\\" in piece:
            piece = piece.replace(b"\\\\", b"")
            self._escaped = piece.endswith(b"\\")
            piece = piece.replace(b'\\"', b"")
        else:
            self._escaped = False
        parts = piece.translate(None, _REST).split(b'"')
        self._values += sum(map(len, parts[self._inside :: 2]))
        self._strings += len(parts) - 1
        self._inside ^= (len(parts) - 1) & 1


def has_more_values(text: bytes, limit: int) -> bool:
    """Whether a whole text contains more values than this. Short texts and those with few commas are not read twice."""
    if len(text) <= limit or (limit >= 3 * FEW and has_few(text)):
        return False
    if text.count(b",") + text.count(b"[") + text.count(b"{") <= limit:
        return False
    return not ValueTally(limit).add(text)


def has_few(text: bytes) -> bool:
    """Whether there are fewer than `FEW` of each. `find` skips a picture or a file, where `count` reads every byte."""
    for mark in (b",", b"[", b"{"):
        at = -1
        for _ in range(FEW):
            at = text.find(mark, at + 1)
            if at < 0:
                break
        else:
            return False
    return True
