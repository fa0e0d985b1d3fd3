"""Whether the gateway can do what it is for: start agents. What happened last decides, and what is under way; nothing
is started to find out.

Rules:
- A provider is broken when its last start failed and nobody was served since; or when several starts in a row failed,
  whoever is served by an older process: a gateway whose every fresh start fails is not well because it lived before.
  Only a start that succeeds mends that, or time, if all who came meanwhile were served.
- A start that hangs is as bad as one that fails, and is not waited for until its deadline: it counts when it takes
  longer than `late`, and longer than starts of its provider take, and none has succeeded since it began. When it fails
  in the end it counts as several, as does a program that could not even be run: trying again is vain.
- A process that came up and died before it had done anything is a failed start. After one of those coming up alone
  proves nothing: the next one has to last.
- The same holds for the agents' own sessions, on fresh and old processes: several opens in a row that fail, or one that
  hangs, and no new conversation can be expected to be answered.
- The gateway is ready unless every provider that was tried is broken, or `others` know of a problem. One that is told
  to warm a key is not ready before the first one is up.
- A loop of the gateway that has ended or hangs, and a store that cannot be written to, make it not ready.
- Whatever makes it not ready is said in a sentence that tells what to do.
"""

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from ostler.gateway.ops.checks import Problem
from ostler.metrics.loops import Loops
from ostler.pool.core.values import Counted, RetireReason
from ostler.pool.errors import Phase
from ostler.pool.keys import TransportKey
from ostler.pool.observer import Counts
from ostler.pool.runner.live import UnderWay, WorkKind

STARTED, OPENED, LOST = "started", "opened", "lost"
SEVERAL = 3
FORGIVEN_AFTER = 300.0
LATE = 25.0
"""Below the 30 s after which everybody must know, above the 20 s that slow machines need for a cold start."""
SLOWER = 1.5
"""How much longer than the slowest of late a start may take before it is suspected."""
FADES = 0.9
NO_AGENT = "no agent can be started; see the log"
STARTING = "the agents that are to be kept warm are still starting"
LASTS = 10.0
"""After so long a process that came up was no false hope."""


@dataclass
class StartAttempts:
    """Starts of one provider, or its agents' sessions: how the last ones went."""

    failures: int = 0
    failed_at: float = 0.0
    good_at: float | None = None
    slowest: float = 0.0
    """Of those that succeeded; it fades with each that was quicker."""
    _good_since: bool = False
    _fleeting: bool = False

    def succeed(self, now: float, seconds: float) -> None:
        """One went well, so far."""
        self.good_at, self._good_since = now, True
        self.slowest = max(seconds, self.slowest * FADES)

    def fail(self, now: float, *, weight: int = 1, fleeting: bool = False) -> None:
        """One did not. `fleeting`: it seemed to go well."""
        self.failures = self.in_a_row(now) + weight
        self.failed_at, self._good_since, self._fleeting = now, False, fleeting

    def in_a_row(self, now: float) -> int:
        """Failures since the last one that went well."""
        since = self.good_at if self._good_since else None
        mended = since is not None and (not self._fleeting or now - since >= LASTS)
        return 0 if mended else self.failures

    def too_many(self, now: float) -> bool:
        """Several in a row, not long ago."""
        return self.in_a_row(now) >= SEVERAL and now - self.failed_at < FORGIVEN_AFTER

    def overdue(self, seconds: float, late: float) -> bool:
        """Whether one that takes so long is suspect."""
        return seconds >= max(late, self.slowest * SLOWER)

    def stuck(self, now: float, seconds: float, late: float) -> bool:
        """Whether one that is under way for so long is, and no other one has gone well meanwhile."""
        return self.overdue(seconds, late) and (self.good_at is None or self.good_at <= now - seconds)


@dataclass
class ProviderHealth:
    """Of one provider."""

    starts: StartAttempts = field(default_factory=StartAttempts)
    opens: StartAttempts = field(default_factory=StartAttempts)
    served_at: float | None = None

    def broken(self, now: float) -> bool:
        """Whether nothing says that the next start will be good."""
        if self.opens.too_many(now):
            return True
        served = self.served_at is not None and self.served_at >= self.starts.failed_at
        return self.starts.too_many(now) or (self.starts.in_a_row(now) > 0 and not served)

    def of(self, work: WorkKind) -> StartAttempts:
        """Those of this kind."""
        return self.starts if work is WorkKind.START else self.opens


def nothing_under_way() -> Iterable[UnderWay]:
    """Of a pool that is not there yet."""
    return ()


def no_problems() -> Iterable[Problem]:
    """Of a gateway that is not put together yet."""
    return ()


@dataclass
class Readiness(Counts):
    """An observer of the pool."""

    clock: Callable[[], float] = field(kw_only=True)
    expects: bool = field(kw_only=True, default=False)
    """Something is to be warmed, so readiness waits for it."""
    late: float = field(kw_only=True, default=LATE)
    under_way: Callable[[], Iterable[UnderWay]] = field(kw_only=True, default=nothing_under_way)
    """Set by whoever makes the pool, which needs its observer first."""
    loops: Loops = field(kw_only=True, default_factory=Loops)
    """What must not end while the gateway serves. A gateway without one of them is not ready."""
    others: Callable[[], Iterable[Problem]] = field(kw_only=True, default=no_problems)
    """What else is wrong with the gateway. Set by whoever makes the checks."""
    tried: dict[str, ProviderHealth] = field(default_factory=dict)

    @property
    def ready(self) -> bool:
        """The verdict."""
        return not self.problems

    @property
    def problems(self) -> list[Problem]:
        """Why it is not ready; empty: it is."""
        loops = [Problem(said, said) for said in self.loops.broken()]
        return [*loops, *self._agents(), *self.others()]

    def _agents(self) -> Iterator[Problem]:
        now = self.clock()
        stuck = {work.provider for work in self.under_way() if self._is_stuck(work, now)}
        tried = self.tried.keys() | stuck
        if not tried and self.expects:
            yield Problem(STARTING, STARTING)
        elif tried and all(provider in stuck or self.tried[provider].broken(now) for provider in tried):
            advice = "their last words are under the failures; then `ostler pool reconnect KEY`"
            yield Problem(NO_AGENT, f"no agent of {', '.join(sorted(tried))} can be started: {advice}")

    def claimed(self, key: TransportKey, warmth: str, miss: str, waited: float) -> None:
        super().claimed(key, warmth, miss, waited)
        self._of(key.provider).served_at = self.clock()

    def started(self, provider: str, outcome: str, phase: str, seconds: float) -> None:
        super().started(provider, outcome, phase, seconds)
        health, now = self._of(provider), self.clock()
        if outcome == STARTED:
            health.starts.succeed(now, seconds)
            health.served_at = now
        else:
            vain = phase == Phase.SPAWN or health.starts.overdue(seconds, self.late)
            health.starts.fail(now, weight=SEVERAL if vain else 1)

    def opened(self, provider: str, outcome: str, seconds: float) -> None:
        super().opened(provider, outcome, seconds)
        opens = self._of(provider).opens
        if outcome == OPENED:
            opens.succeed(self.clock(), seconds)
        elif outcome != LOST:  # with its process, whose end is counted where it belongs
            opens.fail(self.clock(), weight=SEVERAL if opens.overdue(seconds, self.late) else 1)

    def noted(self, provider: str, what: str, cause: str) -> None:
        super().noted(provider, what, cause)
        if (what, cause) == (Counted.START_FAILED.value, RetireReason.DIED.value):
            self._of(provider).starts.fail(self.clock(), fleeting=True)

    def _is_stuck(self, work: UnderWay, now: float) -> bool:
        health = self.tried.get(work.provider) or ProviderHealth()
        return health.of(work.work).stuck(now, work.seconds, self.late)

    def _of(self, provider: str) -> ProviderHealth:
        return self.tried.setdefault(provider, ProviderHealth())
