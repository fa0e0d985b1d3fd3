"""What waits for a slow consumer: bounded, lossless for items that can be joined, and explicit about the rest.

Rules:
- Up to `soft` entries wait as they came. Beyond that, an item that joins the last entry (a text delta after a text
  delta) is added to it, so streaming text never grows the queue. Joined items are gathered once, when they are taken.
- Every item costs its weight plus a fixed share; when the cost would pass `budget`, `put` returns False and takes
  nothing. The owner decides what to do with a consumer that far behind.
- An empty backlog takes any one item: a consumer that has taken everything is not behind, however large the next item
  is.
"""

from collections import deque
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

Item = TypeVar("Item")
ENTRY_COST = 128


class Backlog(Generic[Item]):
    """The queue of one consumer."""

    __slots__ = ("_budget", "_cost", "_costs", "_gather", "_joins", "_runs", "_soft", "_weigh")

    def __init__(
        self,
        *,
        soft: int,
        budget: int,
        weigh: Callable[[Item], int],
        joins: Callable[[Item, Item], bool],
        gather: Callable[[Sequence[Item]], Item],
    ) -> None:
        if soft < 1:
            raise ValueError(f"a backlog holds at least 1 entry before it joins, not {soft}")
        self._soft = soft
        self._budget = budget
        self._weigh = weigh
        self._joins = joins
        self._gather = gather
        # The cost of an entry is kept beside it: weighing again when it is taken would drift if an item's weight did.
        self._runs: deque[list[Item]] = deque()
        self._costs: deque[int] = deque()
        self._cost = 0

    def __len__(self) -> int:
        return len(self._runs)

    @property
    def cost(self) -> int:
        """The cost of all waiting items, in the unit of `budget`."""
        return self._cost

    def put(self, item: Item) -> bool:
        """Add an item; False when it does not fit into the budget."""
        cost = self._weigh(item) + ENTRY_COST
        runs = self._runs
        if runs and self._cost + cost > self._budget:
            return False
        if len(runs) >= self._soft and self._joins(runs[-1][0], item):
            runs[-1].append(item)
            self._costs[-1] += cost
        else:
            runs.append([item])
            self._costs.append(cost)
        self._cost += cost
        return True

    def take(self) -> Item:
        """Remove and return the oldest entry; IndexError when nothing waits."""
        run = self._runs.popleft()
        self._cost -= self._costs.popleft()
        return run[0] if len(run) == 1 else self._gather(run)

    def clear(self) -> None:
        """Drop everything: the consumer is gone."""
        self._runs.clear()
        self._costs.clear()
        self._cost = 0
