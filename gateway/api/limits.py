"""Per-key limits: how many requests at once, and how many in a minute. A value machine; the clock is an argument."""

from dataclasses import dataclass, field

from ostler.gateway.api.keys import Caller

MINUTE = 60.0


@dataclass
class Meter:
    """A token bucket and a count."""

    level: float
    at: float
    running: int = 0


@dataclass
class Limits:
    """One meter for each key; as many as there are keys."""

    meters: dict[str, Meter] = field(default_factory=dict)

    def enter(self, caller: Caller, now: float) -> float | None:
        """Count a request in. Seconds to wait where it is one too many, else None."""
        meter = self.meters.get(caller.name)
        if meter is None:
            meter = self.meters[caller.name] = Meter(float(caller.per_minute), now)
        rate = caller.per_minute / MINUTE
        meter.level = min(float(caller.per_minute), meter.level + (now - meter.at) * rate)
        meter.at = now
        if meter.running >= caller.concurrency:
            return 1.0
        if meter.level < 1:
            return (1 - meter.level) / rate
        meter.level -= 1
        meter.running += 1
        return None

    def leave(self, caller: Caller) -> None:
        """Count it out."""
        self.meters[caller.name].running -= 1
