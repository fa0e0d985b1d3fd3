"""The end of a process tree: SIGTERM to every process, a grace, then SIGKILL to all that are found, until none is left.

Rules: `KillPlan` decides and is pure. The gateway drives it from its loop, the reaper process from a blocking one.
"""

import signal
from collections.abc import Iterable
from typing import NamedTuple

from .proc import Stat


class Orders(NamedTuple):
    signals: list[tuple[Stat, signal.Signals]]
    over: bool


class KillPlan:
    """Takes the result of each scan of `/proc`; returns which processes to signal, and whether the tree is gone.

    A scan may come too early: a child between fork and exec carries no marker yet. `linger` is how long an empty scan
    is not trusted, for trees with a start that was announced and not completed.

    A scan also takes time: a process that forks after the scan has passed its child's place, and dies before the scan
    reaches it, is read as dead, and its child is not read at all. So an empty scan is trusted only when the next one,
    begun after all were dead, is empty too.
    """

    def __init__(self, now: float, *, grace: float, bound: float, linger: float = 0.0) -> None:
        self._kill_at = now + grace
        self._give_up_at = now + grace + bound
        self._believe_at = now + linger
        self._terminated: set[tuple[int, int]] = set()
        self._was_empty = False

    def next_orders(self, found: Iterable[Stat], now: float) -> Orders:
        alive = [stat for stat in found if not stat.dead]
        confirmed, self._was_empty = self._was_empty, not alive
        if not alive:
            return Orders([], over=confirmed and now >= self._believe_at)
        if now >= self._give_up_at:
            return Orders([], over=True)
        if now >= self._kill_at:
            return Orders([(stat, signal.SIGKILL) for stat in alive], over=False)
        fresh = [stat for stat in alive if stat.identity not in self._terminated]
        self._terminated.update(stat.identity for stat in fresh)
        # Once each: several CLIs take a second SIGTERM for impatience and drop what they were saving.
        return Orders([(stat, signal.SIGTERM) for stat in fresh], over=False)
