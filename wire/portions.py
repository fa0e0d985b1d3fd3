"""What arrived in one read, taken in portions: a few lines each, so that no sender keeps the event loop for itself.

Rules:
- Nothing is lost, reordered or changed: the portions joined are the bytes that were put in.
- A portion ends behind at most `lines` newlines and holds at most `size` bytes. Bytes without a newline cost little.
"""

from collections import deque

LINES = 32
"""Of one sender in one round of the loop: a tool call takes some 60 us from its line to its client's frames."""
SIZE = 64 * 1024
"""Bytes; as many as a pipe holds."""

FREE, RESTS, LONGEST_REST = 0.005, 3.0, 0.1
"""Seconds of work that cost no rest, how many times as long as the work a rest is, and at most."""


class Portions:
    """The bytes of one sender that nobody has looked at yet."""

    __slots__ = ("_lines", "_reads", "_size", "held")

    def __init__(self, *, lines: int = LINES, size: int = SIZE) -> None:
        self._lines = lines
        self._size = size
        self._reads: deque[bytes] = deque()
        self.held = 0
        """Bytes that wait."""

    def fits(self, data: bytes) -> bool:
        """Whether this is one portion, and nothing waits before it: the ordinary case."""
        return not self._reads and len(data) <= self._size and data.count(b"\n") <= self._lines

    def put(self, data: bytes) -> None:
        """Behind everything that waits."""
        if data:
            self._reads.append(data)
            self.held += len(data)

    def take(self) -> bytes:
        """The next portion; empty where nothing waits."""
        if not self._reads:
            return b""
        data = self._reads.popleft()
        portion = data[: self._size]
        if portion.count(b"\n") > self._lines:
            rest = portion.split(b"\n", self._lines)[-1]
            portion = portion[: len(portion) - len(rest)]
        if len(portion) < len(data):
            self._reads.appendleft(data[len(portion) :])
        self.held -= len(portion)
        return portion

    def clear(self) -> None:
        """Nobody wants it any more."""
        self._reads.clear()
        self.held = 0


class LoopShare:
    """When a sender of much has its next turn. Pure: times and seconds of work are handed in.

    A burst is free, so that ordinary messages never wait. Who goes on has a quarter of the time: the turn of somebody
    else takes some twenty rounds of the loop, and each would have a portion of the flood in it. Senders may have one
    share together, where a new one costs its maker nothing.
    """

    __slots__ = ("_free_at", "_used")

    def __init__(self) -> None:
        self._used = 0.0
        self._free_at = 0.0

    def wait_after(self, seconds: float, now: float) -> float:
        """So much more was used; how long to wait before the next portion."""
        self._used += seconds
        if self._used >= FREE:
            rest = min(self._used * RESTS, LONGEST_REST)
            self._used, self._free_at = 0.0, max(now, self._free_at) + rest
        return max(0.0, self._free_at - now)
