"""How many seats to keep parked, learned from arrivals. Pure arithmetic over times that are passed in.

Rules:
- A reserve only has to last until it is refilled, so it is sized by the arrivals of one *refill* (the measured time to
  open a seat, plus a start where a seat needs its own process), not by how long turns last.
- The steady target is the smallest n such that n or more further arrivals within one refill are rarer than
  `miss_chance` (Poisson).
- Bursts are not Poisson: the most arrivals ever seen within one refill are remembered with a slow decay, and count only
  while a burst goes on. So silence costs little, and the first arrival after it orders the seats of the whole burst.
- The silence since the last arrival is evidence too: no rate above one arrival per that silence is believed.
- Everything decays: a seat queue without traffic ends at zero, and only its floor remains.
"""

import math
from collections import deque
from dataclasses import dataclass, field

from ostler.pool.core.values import SettingsError

# Seconds for which a target is reused unless a claim arrives: everything else that could change it is much slower.
JUDGED_FOR = 0.5


@dataclass(frozen=True, slots=True)
class ReserveRule:
    """How the reserve is sized. `most` seats at any time; half-lives and holds in seconds.

    `keep_seconds`: arrivals recur if at least one is expected within this time; fewer are not worth a parked seat.
    """

    most: int = 16
    miss_chance: float = 0.002
    rate_half_life: float = 300.0
    burst_half_life: float = 6 * 3600.0
    burst_hold: float = 15.0
    keep_seconds: float = 900.0

    def __post_init__(self) -> None:
        times = (self.rate_half_life, self.burst_half_life, self.burst_hold, self.keep_seconds)
        if self.most <= 0 or min(times) <= 0 or not 0 < self.miss_chance < 1:
            raise SettingsError(f"a reserve rule needs positive numbers and a chance between 0 and 1: {self}")


@dataclass(frozen=True, slots=True)
class ReserveEstimate:
    """What was concluded from arrivals at one moment. Without recurring arrivals all but the rate is zero."""

    rate: float
    expected: float = 0.0
    """Arrivals within one refill."""
    steady: int = 0
    """Seats for these arrivals, at the chance of a miss that the rule allows."""
    burst: int = 0
    """Seats for the remembered burst, while it may still be going on."""
    wanted: int = 0


@dataclass(slots=True)
class Arrivals:
    """The arrivals of one (key, tools): a decaying rate and the remembered size of its bursts."""

    rule: ReserveRule
    mass: float = 0.0
    first: float = 0.0
    last: float = -math.inf
    peak: float = 0.0
    recent: deque[float] = field(default_factory=deque)
    judged_at: float = -math.inf
    wanted: int = 0

    def record(self, now: float, refill: float) -> None:
        """Record one arrival; `refill` is how long a new seat takes at present."""
        if self.mass == 0.0:
            self.first = now
        else:
            self.mass *= _halved(now - self.last, self.rule.rate_half_life)
            self.peak *= _halved(now - self.last, self.rule.burst_half_life)
        self.mass += 1.0
        self.last = now
        self.recent.append(now)
        while len(self.recent) > self.rule.most or now - self.recent[0] > refill:
            self.recent.popleft()
        self.peak = max(self.peak, float(len(self.recent)))
        self.judged_at = -math.inf

    def follow(self, rule: ReserveRule) -> None:
        """Judge by another rule from now on; recorded arrivals are kept."""
        self.rule = rule
        self.judged_at = -math.inf

    def rate(self, now: float) -> float:
        """Arrivals per second, corrected for a short history (else a new seat queue looks idle for its first
        minutes).
        """
        if self.mass == 0.0:
            return 0.0
        half_life = self.rule.rate_half_life
        seen = max(now - self.first, half_life / 10)
        mass = self.mass * _halved(now - self.last, half_life)
        return mass * math.log(2) / half_life / (1.0 - _halved(seen, half_life))

    def recurring(self, now: float, refill: float) -> bool:
        """Whether the next arrival is near enough to keep something warm for it."""
        return self.target(now, refill) > 0

    def target(self, now: float, refill: float) -> int:
        """Seats to keep parked now; reused for `JUDGED_FOR` seconds unless a claim arrives."""
        if now - self.judged_at >= JUDGED_FOR:
            self.judged_at, self.wanted = now, self._judge(now, refill)
        return self.wanted

    def _judge(self, now: float, refill: float) -> int:
        return self.judgement(now, refill).wanted

    def judgement(self, now: float, refill: float) -> "ReserveEstimate":
        """The target with the numbers it was computed from, for an operator who asks why."""
        rate = self.rate(now)
        if rate * self.rule.keep_seconds < 1.0:
            return ReserveEstimate(rate)
        silence = now - self.last
        believed = min(rate, 1.0 / silence) if silence > 0.0 else rate
        steady = seats_for(believed * refill, self.rule.miss_chance, self.rule.most)
        burst = 0
        if silence <= self.rule.burst_hold:
            burst = math.ceil(self.peak * _halved(silence, self.rule.burst_half_life))
        return ReserveEstimate(rate, believed * refill, steady, burst, min(max(steady, burst), self.rule.most))


def seats_for(expected: float, miss_chance: float, most: int) -> int:
    """The smallest n >= 1 with P(N >= n) <= miss_chance for N ~ Poisson(expected), at most `most`."""
    term = math.exp(-expected)
    tail = 1.0 - term
    seats = 1
    while tail > miss_chance and seats < most:
        term *= expected / seats
        tail -= term
        seats += 1
    return seats


def _halved(elapsed: float, half_life: float) -> float:
    return float(0.5 ** (elapsed / half_life)) if elapsed > 0.0 else 1.0
