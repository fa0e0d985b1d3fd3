"""Decides how long the next transaction may wait for another program's lock.

Rules:
- All queued writes share one wait, counted from the moment the lock was found taken. A new wait for each transaction
  would add up: a turn writes several times, each time behind the writes of others.
- When the shared wait is over, each writer makes one last short try, until the lock is found free.
- An old finding says nothing about now: the first write after a pause as long as the wait gets the whole wait.
"""

SHARE = 50
"""The last short try takes this fraction of the wait (1/50)."""


class LockWait:
    """What is known about the lock so far. The caller passes times, in seconds."""

    def __init__(self, whole: float) -> None:
        self._whole = whole
        self._taken_since: float | None = None
        self._refused_at = 0.0

    def left(self, began: float, now: float) -> float:
        """Seconds that a transaction begun at `began` may still wait for the lock."""
        since = self._known_since(began)
        return max(self._whole - (now - since), self._whole / SHARE)

    def refused(self, began: float, now: float) -> float:
        """Record that the lock was not free; return for how many seconds it is known to be taken."""
        self._taken_since = self._known_since(began)
        self._refused_at = now
        return round(now - self._taken_since, 2)

    def granted(self) -> None:
        """Record that the lock was free."""
        self._taken_since = None

    def _known_since(self, began: float) -> float:
        if self._taken_since is None or began - self._refused_at > self._whole:
            return began
        return self._taken_since
