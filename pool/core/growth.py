"""By how much a process has outgrown itself.

Rules:
- Sessions weigh, and those that live are no reason to move anybody: the successor would weigh as much with them. So a
  weight is held against the least that the process ever weighed with as many sessions or more.
- What passes is no growth: only one that is too heavy at so many looks in a row has outgrown itself.
"""

from bisect import bisect_left
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Final

LOOKS: Final = 3
"""A program that collects its garbage now and then is at its heaviest when sessions were just brought to it: gemini
weighs 480 to 590 MB with some thirty of them, and 310 with forty half a minute later."""


@dataclass(slots=True)
class Weights:
    """`least`: (sessions, the least bytes with as many or more), in order of both; `heavy`: looks in a row at which it
    was too heavy."""

    least: list[tuple[int, int]] = field(default_factory=list)
    heavy: int = 0

    def outgrown(self, sessions: int, size: int, allowed: float) -> bool:
        """Take a weight down, and say whether the process has outgrown what is allowed by now."""
        self.heavy = self.heavy + 1 if self.grown(sessions, size) > allowed else 0
        return self.heavy >= LOOKS

    def grown(self, sessions: int, size: int) -> int:
        """By how many bytes this is more than the least with as many sessions or more; 0 makes it the least."""
        place = end = bisect_left(self.least, sessions, key=itemgetter(0))
        if place < len(self.least):
            count, weight = self.least[place]
            if weight <= size:
                return size - weight
            end += count == sessions
        while place and self.least[place - 1][1] >= size:
            place -= 1
        self.least[place:end] = [(sessions, size)]
        return 0
