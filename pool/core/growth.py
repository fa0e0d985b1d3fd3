"""By how much a process has outgrown itself.

Rules:
- Sessions use memory, and live sessions are no reason to replace a process: its successor would use as much for them.
  So a measurement is compared with the least the process ever used with as many sessions or more.
- A peak that passes is no growth: only a process that is too large at `LOOKS` measurements in a row has outgrown
  itself.
"""

from bisect import bisect_left
from dataclasses import dataclass, field
from operator import itemgetter
from typing import Final

LOOKS: Final = 3
"""A program that collects its garbage now and then is at its largest when sessions have just been opened on it: gemini
takes 480 to 590 MB with some thirty of them, and 310 MB with forty half a minute later.
"""


@dataclass(slots=True)
class Weights:
    """The memory history of one process.

    `least`: (sessions, the least bytes with as many or more), in ascending order of both; `heavy`: measurements in a
    row at which the process was too large.
    """

    least: list[tuple[int, int]] = field(default_factory=list)
    heavy: int = 0

    def outgrown(self, sessions: int, size: int, allowed: float) -> bool:
        """Record a measurement and return whether the process has now outgrown what is allowed."""
        self.heavy = self.heavy + 1 if self.grown(sessions, size) > allowed else 0
        return self.heavy >= LOOKS

    def grown(self, sessions: int, size: int) -> int:
        """By how many bytes this exceeds the least with as many sessions or more. At 0 this becomes the least."""
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
