"""Bounded newline framing: bytes in any portions in, whole lines out.

Rules:
- How the bytes arrive never matters: split anywhere, they give the same lines, at a cost linear in the bytes.
- A line over the limit is reported once, by `LineTooLong`, and its bytes are dropped as they come, so memory stays
  bounded; the stream is in step again at the next newline and the lines after it are delivered. The first bytes of a
  dropped line are kept: they often name the call that will now never be answered.
- Blank lines (nothing but white space) are not lines.
- The limit has room for what a client may send us (`gateway.body_limit`, 10 MiB) when an agent repeats it on one line.
  A line twice as long costs all other sessions twice the time: it is copied, read and written again in one go each.
"""

from dataclasses import dataclass, field

DEFAULT_LIMIT = 24 * 1024 * 1024
HEAD = 512


@dataclass(frozen=True, slots=True)
class LineTooLong:
    """Takes the place of a dropped line in the stream; `size` is its length without the newline."""

    size: int
    limit: int
    head: bytes = field(default=b"", repr=False)

    def __str__(self) -> str:
        return f"a line of {self.size} bytes is over the limit of {self.limit} bytes and was dropped"


class LineSplitter:
    """Splits one direction of one stream into lines."""

    __slots__ = ("_head", "_held", "_limit", "_size")

    def __init__(self, limit: int = DEFAULT_LIMIT) -> None:
        if limit < 1:
            raise ValueError(f"the line limit must be at least 1 byte, not {limit}")
        self._limit = limit
        # One growing buffer and not a list of parts: a line that arrives byte by byte would cost 40 bytes for each.
        self._held = bytearray()
        self._size = 0
        self._head = b""

    @property
    def held(self) -> int:
        """Bytes kept for the unfinished line; never more than the limit."""
        return len(self._held)

    def feed(self, chunk: bytes) -> list[bytes | LineTooLong]:
        """Take the next bytes; return the lines that they complete."""
        head, newline, rest = chunk.partition(b"\n")
        if not newline:
            self._hold(chunk)
            return []
        lines: list[bytes | LineTooLong] = []
        self._finish(head, lines)
        if rest:
            *whole, tail = rest.split(b"\n")
            for line in whole:
                if line:
                    self._judge(line, lines)
            if tail:
                self._hold(tail)
        return lines

    def _hold(self, part: bytes) -> None:
        self._size += len(part)
        if self._size <= self._limit:
            self._held += part
        elif len(self._head) < HEAD:
            self._head = (self._head + self._held[:HEAD] + part[:HEAD])[:HEAD]
            self._held = bytearray()

    def _finish(self, last: bytes, lines: list[bytes | LineTooLong]) -> None:
        if not self._size:
            self._judge(last, lines)
            return
        self._hold(last)
        if self._size > self._limit:
            lines.append(LineTooLong(self._size, self._limit, self._head))
        else:
            self._judge(bytes(self._held), lines)
        self._size, self._head, self._held = 0, b"", bytearray()

    def _judge(self, line: bytes, lines: list[bytes | LineTooLong]) -> None:
        if len(line) > self._limit:
            lines.append(LineTooLong(len(line), self._limit, line[:HEAD]))
        elif line and not line.isspace():
            lines.append(line)
