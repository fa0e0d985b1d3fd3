"""Start failures of one fingerprint. Rules: the first failure costs nothing (the next claim tries at once),
the second and later ones back off exponentially with jitter, and from `breaker_after` on claims fail fast
with the last text until a cool-down is over; then one trial at a time. Starts that nobody waits for are never
the first to try again. A start for which this machine had no room says nothing of the agent: it is no step towards
the breaker, or a disk that was full for seconds would keep everybody out for a minute. While that lasts, claims try
again after some seconds at most; what nobody waits for backs off as ever, and takes no starts from other keys.
"""

from dataclasses import dataclass

from ostler.pool.core.settings import Limits

SOON = 4.0
"""Seconds until the next start for somebody who waits, where this machine had no room."""


@dataclass(slots=True, eq=False)
class Breaker:
    failures: int = 0
    not_before: float = 0.0
    background_after: float = 0.0
    shortages: int = 0
    phase: str = ""
    text: str = ""

    def fail(self, now: float, limits: Limits, jitter: float, phase: str, text: str, *, retryable: bool) -> None:
        self.failures += 1
        self.phase, self.text = phase, text
        spread = 0.75 + 0.5 * jitter
        self.not_before = now + _pause(self.failures, limits) * spread
        quiet = _pause(self.failures + 1, limits) if retryable else limits.breaker_cooldown
        self.background_after = max(self.not_before, now + quiet * spread)

    def fall_short(self, now: float, limits: Limits, jitter: float, phase: str, text: str) -> None:
        self.shortages += 1
        self.phase, self.text = phase, text
        spread, pause = 0.75 + 0.5 * jitter, limits.backoff_base * 2.0 ** min(self.shortages - 1, 30)
        self.not_before = max(self.not_before, now + min(pause, limits.backoff_cap, SOON) * spread)
        self.background_after = max(self.background_after, now + min(2.0 * pause, limits.backoff_cap) * spread)

    def is_open(self, now: float, limits: Limits) -> bool:
        """Whether claims are to be refused at once instead of waiting for a start."""
        return self.failures >= limits.breaker_after and now < self.not_before


def _pause(failures: int, limits: Limits) -> float:
    if failures >= limits.breaker_after:
        longest = max(limits.backoff_cap, limits.breaker_cooldown)
        return min(limits.breaker_cooldown * 2.0 ** min(failures - limits.breaker_after, 30), longest)
    if failures <= 1:
        return 0.0
    return min(limits.backoff_base * 2.0 ** min(failures - 2, 30), limits.backoff_cap)
