"""How long the next transaction may wait for another program's lock.

Rules:
- The wait is the queue's, counted from the moment at which the lock was found taken, and not a new one for each
  transaction: a turn writes several times, each time behind the writes of others, and would be told after the sum.
- When it is over, whoever writes is told after a last short try of its own, until the lock is found free.
- What was found long ago says nothing of now: the first to write after a pause as long as the wait waits for all of it.
"""

SHARE = 50
"""The last short try is this part of the wait."""


class LockWait:
    """What was found out about the lock so far. Times are handed in, in seconds."""

    def __init__(self, whole: float) -> None:
        self._whole = whole
        self._taken_since: float | None = None
        self._refused_at = 0.0

    def left(self, began: float, now: float) -> float:
        """Seconds for a transaction that was begun then and asks for the lock now."""
        since = self._known_since(began)
        return max(self._whole - (now - since), self._whole / SHARE)

    def refused(self, began: float, now: float) -> float:
        """It did not come. Seconds for which it has been taken, as far as anybody here knows."""
        self._taken_since = self._known_since(began)
        self._refused_at = now
        return round(now - self._taken_since, 2)

    def granted(self) -> None:
        """It was free."""
        self._taken_since = None

    def _known_since(self, began: float) -> float:
        if self._taken_since is None or began - self._refused_at > self._whole:
            return began
        return self._taken_since
