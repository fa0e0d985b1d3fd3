"""The last lines of a stderr that is always read: bounded in lines and bytes, secrets hidden.

Rules:
- stderr is always read: unread, it blocks the agent; kept whole, it fills our memory.
- A line longer than the limit is redacted before it is cut, so that no half of a secret gets through at the cut.
- Lines are redacted only when they are asked for: redaction takes 0.3 ms for a long line, and an agent may write
  thousands in a second.
"""

from collections import deque

from ostler.wire.redaction import LONGEST_SECRET, Redaction

MAX_LINES = 200
MAX_LINE = 2_048
MAX_BYTES = 65_536


class StderrTail:
    """The tail of one stderr: feed bytes, ask for the last lines."""

    def __init__(self, redact: Redaction) -> None:
        self._redact = redact
        self._lines: deque[bytes] = deque(maxlen=MAX_LINES)
        self._size = 0
        self._open = b""

    def feed(self, data: bytes) -> None:
        *whole, rest = data.split(b"\n")
        if not whole:
            self._open = (self._open + rest)[: MAX_LINE + LONGEST_SECRET]
            return
        whole[0] = self._open + whole[0]
        self._open = rest[: MAX_LINE + LONGEST_SECRET]
        # In a flood only the last lines of a chunk are kept: skip the others unread.
        for line in whole[-MAX_LINES:]:
            self._append(line)

    def tail(self, count: int = MAX_LINES) -> list[str]:
        """The last `count` lines, redacted; a last line without its newline counts."""
        if count <= 0:
            return []
        lines = [*self._lines, self._open] if self._open else list(self._lines)
        return [self._redact(line.decode(errors="replace"))[:MAX_LINE] for line in lines[-count:]]

    def _append(self, line: bytes) -> None:
        if len(self._lines) == MAX_LINES:
            self._size -= shown_size(self._lines[0])
        self._lines.append(line[: MAX_LINE + LONGEST_SECRET].rstrip(b"\r"))
        self._size += shown_size(self._lines[-1])
        while self._size > MAX_BYTES:
            self._size -= shown_size(self._lines.popleft())


def shown_size(line: bytes) -> int:
    """The size that counts for a kept line: the part that is shown. The rest is kept only for redaction."""
    return min(len(line), MAX_LINE)
