"""When a tool server that ended is started again. Pure: facts in, seconds out.

Rules: the pause doubles with every failure in a row and is drawn between half and all of it, so that servers that died
together do not restart together. After `threshold` failures the breaker is open: one try per `cooldown`, until one
succeeds. Only a run of at least `stable_after` seconds counts as a success: a server that starts and dies immediately
is as broken as one that does not start.
"""

from dataclasses import dataclass


@dataclass(slots=True, kw_only=True)
class Restarts:
    """The failures in a row of one server and the resulting pauses."""

    first: float = 0.5
    longest: float = 60.0
    threshold: int = 6
    cooldown: float = 300.0
    stable_after: float = 30.0
    failures: int = 0

    @property
    def open(self) -> bool:
        return self.failures >= self.threshold

    def ended(self, *, ran: float, draw: float) -> float:
        """The pause after a run of `ran` seconds (0: it did not start); `draw` is random, from 0 to below 1."""
        if ran >= self.stable_after:
            self.failures = 0
        self.failures += 1
        whole = self.cooldown if self.open else min(self.longest, self.first * 2 ** (self.failures - 1))
        return whole * (1 + draw) / 2
