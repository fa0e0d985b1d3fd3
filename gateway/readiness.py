"""Whether the gateway can do what it is for: start agents. What happened last decides; nothing is started to find out.

Rules:
- A provider is broken when its last start failed and nobody was served since; or when several starts in a row failed,
  whoever is served by an older process: a gateway whose every fresh start fails is not well because it lived before.
  Only a start that succeeds mends that, or time, if all who came meanwhile were served.
- The gateway is ready unless every provider that was tried is broken. One that is told to warm a key is not ready
  before the first one is up.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from ostler.pool.keys import TransportKey
from ostler.pool.observer import Counts

GOOD = "started"
SEVERAL = 3
FORGIVEN_AFTER = 300.0


@dataclass
class Health:
    """Of one provider."""

    failures: int = 0
    """Starts that failed since the last good one."""
    failed_at: float = 0.0
    served_at: float | None = None

    def broken(self, now: float) -> bool:
        """Whether nothing says that the next start will be good."""
        if not self.failures:
            return False
        served = self.served_at is not None and self.served_at >= self.failed_at
        return not served or (self.failures >= SEVERAL and now - self.failed_at < FORGIVEN_AFTER)


@dataclass
class Readiness(Counts):
    """An observer of the pool."""

    clock: Callable[[], float] = field(kw_only=True)
    expects: bool = field(kw_only=True, default=False)
    """Something is to be warmed, so readiness waits for it."""
    tried: dict[str, Health] = field(default_factory=dict)

    @property
    def ready(self) -> bool:
        """The verdict."""
        now = self.clock()
        if not self.tried:
            return not self.expects
        return not all(health.broken(now) for health in self.tried.values())

    def claimed(self, key: TransportKey, warmth: str, miss: str, waited: float) -> None:
        super().claimed(key, warmth, miss, waited)
        self._of(key.provider).served_at = self.clock()

    def started(self, provider: str, outcome: str, phase: str, seconds: float) -> None:
        super().started(provider, outcome, phase, seconds)
        health = self._of(provider)
        if outcome == GOOD:
            health.failures, health.served_at = 0, self.clock()
        else:
            health.failures, health.failed_at = health.failures + 1, self.clock()

    def _of(self, provider: str) -> Health:
        return self.tried.setdefault(provider, Health())
