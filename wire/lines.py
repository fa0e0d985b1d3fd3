"""Bounded newline framing: bytes in any portions in, whole lines out.

Rules:
- How the bytes arrive never matters: split anywhere, the same lines come out.
- A line over the limit is reported once, by `LineTooLong`, and its bytes are dropped as they come, so memory stays
  bounded; the stream is in step again at the next newline and the lines after it are delivered.
- Blank lines (empty or only carriage return and spaces) are not lines.
"""

from dataclasses import dataclass

DEFAULT_LIMIT = 32 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class LineTooLong:
    """Stands in the stream where a line was dropped; `size` is what it measured, newline not counted."""

    size: int
    limit: int

    def __str__(self) -> str:
        return f"a line of {self.size} bytes is over the limit of {self.limit} bytes and was dropped"


class LineSplitter:
    """One direction of one stream."""

    __slots__ = ("_limit", "_parts", "_size")

    def __init__(self, limit: int = DEFAULT_LIMIT) -> None:
        if limit < 1:
            raise ValueError(f"the line limit must be at least 1 byte, not {limit}")
        self._limit = limit
        self._parts: list[bytes] = []
        self._size = 0

    @property
    def held(self) -> int:
        """Bytes kept for the unfinished line; never more than the limit."""
        return self._size if self._size <= self._limit else 0

    def feed(self, chunk: bytes) -> list[bytes | LineTooLong]:
        """Take the next bytes; return the lines that they complete."""
        head, newline, rest = chunk.partition(b"\n")
        if not newline:
            self._hold(chunk)
            return []
        first = self._finish(head)
        lines: list[bytes | LineTooLong] = [] if first is None else [first]
        if rest:
            *whole, tail = rest.split(b"\n")
            limit = self._limit
            for line in whole:
                if len(line) > limit:
                    lines.append(LineTooLong(len(line), limit))
                elif line and not line.isspace():
                    lines.append(line)
            if tail:
                self._hold(tail)
        return lines

    def _hold(self, part: bytes) -> None:
        self._size += len(part)
        if self._size > self._limit:
            self._parts.clear()
        else:
            self._parts.append(part)

    def _finish(self, last: bytes) -> bytes | LineTooLong | None:
        if self._size or last:
            self._hold(last)
        size, parts = self._size, self._parts
        self._size, self._parts = 0, []
        if size > self._limit:
            return LineTooLong(size, self._limit)
        line = parts[0] if len(parts) == 1 else b"".join(parts)
        return line if line and not line.isspace() else None
