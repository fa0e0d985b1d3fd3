"""The bytes of one read, taken in portions of a few lines each, so that no sender occupies the event loop alone.

Rules:
- Nothing is lost, reordered or changed: the portions joined are the bytes that were put in.
- A portion ends after at most `lines` newlines and contains at most `size` bytes. Bytes without a newline cost little.
"""

from collections import deque

LINES = 32
"""Lines of one sender in one iteration of the loop: a tool call takes some 60 us from its line to its client's
frames.
"""
SIZE = 64 * 1024
"""Bytes; as many as a pipe holds."""

FREE, RESTS, LONGEST_REST = 0.005, 3.0, 0.1
"""`FREE`: seconds of work that cost no pause. `RESTS`: how many times the work a pause lasts. `LONGEST_REST`: the
longest pause in seconds.
"""
FREE_ALONE = 0.02
"""`FREE` of a sender that was alone when it paused last: whoever comes then waits this long at most."""
COMPANY = 0.25
"""Seconds since others used the loop, within which a sender is not alone: a turn often waits for a disk or an agent,
and the loop has nothing to do then."""


class Portions:
    """The bytes of one sender that are not delivered yet."""

    __slots__ = ("_lines", "_reads", "_size", "_taken", "held")

    def __init__(self, *, lines: int = LINES, size: int = SIZE) -> None:
        self._lines = lines
        self._size = size
        self._reads: deque[bytes] = deque()
        self._taken = 0
        """How much of the first read was taken."""
        self.held = 0
        """The number of waiting bytes."""

    def fits(self, data: bytes) -> bool:
        """Whether this is one portion and nothing waits before it: the usual case."""
        return not self._reads and len(data) <= self._size and data.count(b"\n") <= self._lines

    def put(self, data: bytes) -> None:
        """Add the bytes after all that wait."""
        if data:
            self._reads.append(data)
            self.held += len(data)

    def take(self) -> bytes:
        """Remove and return the next portion; empty if nothing waits."""
        if not self._reads:
            return b""
        data, start = self._reads[0], self._taken
        most = start + self._size
        end = start
        for _ in range(self._lines):
            end = data.find(b"\n", end, most) + 1
            if not end:  # fewer lines than that
                end = min(most, len(data))
                break
        if end < len(data):
            self._taken = end
        else:
            self._reads.popleft()
            self._taken = 0
        self.held -= end - start
        return data[start:end]

    def clear(self) -> None:
        """Drop everything: the consumer is gone."""
        self._reads.clear()
        self._taken = self.held = 0


class LoopShare:
    """When a sender of much output has its next turn. Pure: times and seconds of work are passed in.

    A burst is free, so ordinary messages never wait. A sender that goes on gets a quarter of the time, several share a
    third: the turn of another session takes some twenty iterations of the loop, and each iteration would contain a
    portion of the flood.
    Senders may share one object if a new sender costs its maker nothing.
    """

    __slots__ = ("_company_until", "_free", "_free_at", "_long", "_used")

    def __init__(self) -> None:
        self._used = 0.0
        self._free = FREE
        self._free_at = 0.0
        self._long = False
        """Whether the pause is for one piece of work that was long in itself: that pause lasts to its end."""
        self._company_until = 0.0

    def wait_after(self, seconds: float, now: float) -> float:
        """Charge this much work; return how long to wait before the next portion."""
        self._used += seconds
        if self._used >= self._free:
            rest = min(self._used * RESTS, LONGEST_REST)
            self._long = self._used > 2 * self._free
            self._used, self._free_at = 0.0, max(now, self._free_at) + rest
        return max(0.0, self._free_at - now)

    def wait_more(self, now: float, *, alone: bool) -> float:
        """How long the pause that has begun still lasts; not at all if the sender has been alone for a while."""
        if not alone:
            self._company_until = now + COMPANY
        if now >= self._company_until and not self._long:
            self._free, self._free_at = FREE_ALONE, now
        else:
            self._free = FREE
        return max(0.0, self._free_at - now)
