"""Limits per key: requests at once, and requests per minute. A value machine; the clock is an argument."""

import math
from dataclasses import dataclass, field

from ostler.gateway.config.keys import Caller
from ostler.gateway.model.api_error import ApiError

MINUTE = 60.0


class TooManyRequests(ApiError):
    """The key is at its limit, at once or per minute."""

    def __init__(self, wait: float) -> None:
        text = "too many requests with this key; wait as long as Retry-After says"
        super().__init__(429, text, code="rate_limit_exceeded", retry_after=max(1, math.ceil(wait)))


@dataclass
class RateMeter:
    """A token bucket, and the number of running requests."""

    level: float
    at: float
    running: int = 0


@dataclass
class CallerLimits:
    """The meters of all keys, one per owner. `at_least`: requests per minute that every key may make."""

    at_least: int = 0
    meters: dict[str, RateMeter] = field(default_factory=dict)

    def spend(self, caller: Caller, now: float) -> None:
        """Count a request. Raises `TooManyRequests` if it exceeds the limit per minute."""
        meter = self._meter(caller, now)
        most = self._most(caller)
        rate = most / MINUTE
        meter.level = min(most, meter.level + (now - meter.at) * rate)
        meter.at = now
        if meter.level < 1:
            raise TooManyRequests((1 - meter.level) / rate)
        meter.level -= 1

    def enter(self, caller: Caller, now: float) -> None:
        """Count a running request. Raises `TooManyRequests` if it exceeds the limit at once."""
        meter = self._meter(caller, now)
        if meter.running >= caller.concurrency:
            raise TooManyRequests(1.0)
        meter.running += 1

    def leave(self, caller: Caller) -> None:
        """Stop counting a running request."""
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
    """A request's slot in the concurrency limit of its key. The route may take it; `AuthMiddleware` always gives it
    back."""

    limits: CallerLimits
    caller: Caller
    now: float
    taken: bool = False

    def take(self) -> None:
        """Take the slot. Raises `TooManyRequests`. Idempotent."""
        if not self.taken:
            self.limits.enter(self.caller, self.now)
            self.taken = True

    def count(self) -> None:
        """Count the request in its minute. Raises `TooManyRequests`."""
        self.limits.spend(self.caller, self.now)

    def give_back(self) -> None:
        """Give the slot back at the end of the request. Idempotent."""
        if self.taken:
            self.taken = False
            self.limits.leave(self.caller)
