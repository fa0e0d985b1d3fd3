"""Failed starts of one fingerprint.

Rules:
- The first failure costs nothing: the next claim starts at once. The second and later ones back off exponentially, with
  jitter.
- From `breaker_after` failures on, claims fail fast with the last error text until a cool-down is over; then one start
  is tried at a time.
- Starts ahead are never the first to try again.
- A start for which this machine had no room (a *shortage*) says nothing of the agent. It does not count towards the
  breaker: a disk that was full for seconds would refuse every claim for a minute. While a shortage lasts, claims try
  again after a few seconds at most; starts ahead back off as usual and take no starts from other keys.
- A process that was ready before the shortage proves nothing about room for another one: it ends the failures, not the
  shortage.
"""

from dataclasses import dataclass
from math import inf

from ostler.pool.core.settings import Limits

SOON = 4.0
"""Seconds until the next start for a waiting claim where this machine had no room; jitter is applied on top."""


@dataclass(frozen=True, slots=True)
class FailureRun:
    """Failures in a row, and what they forbid."""

    count: int = 0
    at: float = -inf
    claims_after: float = 0.0
    ahead_after: float = 0.0
    """When something may be started ahead again."""
    phase: str = ""
    text: str = ""


@dataclass(slots=True, eq=False)
class Breaker:
    crashes: FailureRun = FailureRun()
    shortages: FailureRun = FailureRun()

    @property
    def failures(self) -> int:
        """The failures in a row for which the agent is to blame."""
        return self.crashes.count

    @property
    def last(self) -> FailureRun:
        """The latest failure of either kind."""
        return max(self.crashes, self.shortages, key=lambda trouble: trouble.at)

    @property
    def claims_after(self) -> float:
        """When a waiting claim may be given a start again."""
        return max(self.crashes.claims_after, self.shortages.claims_after)

    @property
    def ahead_after(self) -> float:
        """When something may be started ahead again."""
        return max(self.crashes.ahead_after, self.shortages.ahead_after)

    def fail(self, now: float, limits: Limits, jitter: float, phase: str, text: str, *, retryable: bool) -> None:
        count, spread = self.crashes.count + 1, _spread(jitter)
        claims_after = now + _pause(count, limits) * spread
        quiet = _pause(count + 1, limits) if retryable else limits.breaker_cooldown
        self.crashes = FailureRun(count, now, claims_after, max(claims_after, now + quiet * spread), phase, text)

    def fall_short(self, now: float, limits: Limits, jitter: float, phase: str, text: str) -> None:
        count, spread = self.shortages.count + 1, _spread(jitter)
        pause = limits.backoff_base * 2.0 ** min(count - 1, 30)
        claims_after = now + min(pause, limits.backoff_cap, SOON) * spread
        ahead_after = now + min(2.0 * pause, limits.backoff_cap) * spread
        self.shortages = FailureRun(count, now, claims_after, ahead_after, phase, text)

    def forgive(self, ready_at: float) -> None:
        """A process that became ready at that time works."""
        self.crashes = FailureRun()
        if ready_at > self.shortages.at:
            self.shortages = FailureRun()

    def is_over(self, now: float, limits: Limits) -> bool:
        """Whether the record can be dropped: no failures, and a shortage at least two of the longest pauses ago."""
        return not self.crashes.count and now - self.shortages.at >= 2.0 * limits.backoff_cap

    def is_open(self, now: float, limits: Limits) -> bool:
        """Whether claims are to be refused at once instead of waiting for a start."""
        return self.failures >= limits.breaker_after and now < self.crashes.claims_after


def _spread(jitter: float) -> float:
    return 0.75 + 0.5 * jitter


def _pause(failures: int, limits: Limits) -> float:
    if failures >= limits.breaker_after:
        longest = max(limits.backoff_cap, limits.breaker_cooldown)
        return min(limits.breaker_cooldown * 2.0 ** min(failures - limits.breaker_after, 30), longest)
    if failures <= 1:
        return 0.0
    return min(limits.backoff_base * 2.0 ** min(failures - 2, 30), limits.backoff_cap)
