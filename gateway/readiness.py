"""Whether the gateway can do what it is for: start agents. What happened last decides; nothing is started to find out.

Rules: a gateway that failed to start an agent and has not succeeded since is not ready, however well it answers. One
that is told to warm a key is not ready before the first one is up.
"""

from collections.abc import Callable
from dataclasses import dataclass, field

from ostler.pool.keys import TransportKey
from ostler.pool.observer import Counts

GOOD = "started"


@dataclass
class Readiness(Counts):
    """The pool's observer."""

    clock: Callable[[], float] = field(kw_only=True)
    expects: bool = field(kw_only=True, default=False)
    """Something is to be warmed, so readiness waits for it."""
    good_at: float | None = None
    bad_at: float | None = None

    @property
    def ready(self) -> bool:
        """The verdict."""
        if self.good_at is None:
            return self.bad_at is None and not self.expects
        return self.bad_at is None or self.good_at >= self.bad_at

    def claimed(self, key: TransportKey, warmth: str, miss: str, waited: float) -> None:
        super().claimed(key, warmth, miss, waited)
        self.good_at = self.clock()

    def started(self, provider: str, outcome: str, phase: str, seconds: float) -> None:
        super().started(provider, outcome, phase, seconds)
        if outcome == GOOD:
            self.good_at = self.clock()
        else:
            self.bad_at = self.clock()
