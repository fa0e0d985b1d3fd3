"""Per-key limits: how many requests at once, and how many in a minute. A value machine; the clock is an argument."""

import math
from dataclasses import dataclass, field

from ostler.gateway.config.keys import Caller
from ostler.gateway.model.api_error import ApiError

MINUTE = 60.0


class TooManyRequests(ApiError):
    """One more than the key may have, at once or in a minute."""

    def __init__(self, wait: float) -> None:
        text = "too many requests with this key; wait as long as Retry-After says"
        super().__init__(429, text, code="rate_limit_exceeded", retry_after=max(1, math.ceil(wait)))


@dataclass
class RateMeter:
    """A token bucket and a count."""

    level: float
    at: float
    running: int = 0


@dataclass
class CallerLimits:
    """One meter for each key; as many as there are keys. `at_least`: requests that any key may make in a minute."""

    at_least: int = 0
    meters: dict[str, RateMeter] = field(default_factory=dict)

    def spend(self, caller: Caller, now: float) -> None:
        """Count a request. Raises `TooManyRequests` where it is one too many in a minute."""
        meter = self._meter(caller, now)
        most = self._most(caller)
        rate = most / MINUTE
        meter.level = min(most, meter.level + (now - meter.at) * rate)
        meter.at = now
        if meter.level < 1:
            raise TooManyRequests((1 - meter.level) / rate)
        meter.level -= 1

    def enter(self, caller: Caller, now: float) -> None:
        """One more is at work. Raises `TooManyRequests` where it is one too many at once."""
        meter = self._meter(caller, now)
        if meter.running >= caller.concurrency:
            raise TooManyRequests(1.0)
        meter.running += 1

    def leave(self, caller: Caller) -> None:
        """One less."""
        self.meters[caller.name].running -= 1

    def _meter(self, caller: Caller, now: float) -> RateMeter:
        meter = self.meters.get(caller.name)
        if meter is None:
            meter = self.meters[caller.name] = RateMeter(self._most(caller), now)
        return meter

    def _most(self, caller: Caller) -> float:
        return float(max(caller.per_minute, self.at_least))


@dataclass
class RequestSlot:
    """A request's place among those that its key may have at work. It is the door's to give back, whoever took it."""

    limits: CallerLimits
    caller: Caller
    now: float
    taken: bool = False

    def take(self) -> None:
        """Needed from here on. Raises `TooManyRequests`. Idempotent."""
        if not self.taken:
            self.limits.enter(self.caller, self.now)
            self.taken = True

    def count(self) -> None:
        """One more in this minute. Raises `TooManyRequests`."""
        self.limits.spend(self.caller, self.now)

    def give_back(self) -> None:
        """The request is over. Idempotent."""
        if self.taken:
            self.taken = False
            self.limits.leave(self.caller)
