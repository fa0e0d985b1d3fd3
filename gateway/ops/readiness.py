"""Decides whether the gateway can start agents, from recent events and work in progress. Starts nothing itself.

Rules:
- A provider is broken if its last start failed and no claim was served since, or if several starts in a row failed,
  even while older processes still serve: a gateway whose every new start fails is not healthy because of its past. Only
  a successful start clears that, or time, if every claim was served meanwhile.
- A start that hangs counts like a failed one, without waiting for its deadline: when it takes longer than `late`, and
  longer than starts of its provider usually take, and no start has succeeded since it began. When it finally fails, it
  counts as several failures, and so does a program that could not be executed: a retry would not help.
- A process that started and died before it did anything is a failed start. After one such process, another start proves
  nothing until it has lasted.
- The same holds for opening sessions, on new and on old processes: if several opens in a row fail, or one hangs, no new
  conversation is likely to be answered.
- The gateway is ready unless every provider that was tried is broken, or `others` report a problem. A gateway that
  should warm a key is not ready before its first process has started.
- It is not ready when one of its loops has ended or hangs, or when the store cannot be written to.
- Every problem is a sentence that says what to do.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field

from ostler.gateway.ops.checks import Problem
from ostler.metrics.loops import Loops
from ostler.pool.core.values import Counted, RetireReason
from ostler.pool.errors import Phase
from ostler.pool.keys import TransportKey
from ostler.pool.observer import NoPoolObserver
from ostler.pool.snapshot import UnderWay, WorkKind

STARTED, OPENED, LOST = "started", "opened", "lost"
SEVERAL = 3
FORGIVEN_AFTER = 300.0
LATE = 25.0
"""Seconds. Less than the 30 s within which a fault must be reported, more than the 20 s of a cold start on slow
machines."""
SLOWER = 1.5
"""A start is suspect when it takes this many times as long as the slowest recent one."""
FADES = 0.9
NO_AGENT = "no agent can be started; see the log"
STARTING = "the agents that are to be kept warm are still starting"
LASTS = 10.0
"""Seconds that a process must last after one died right after its start."""


@dataclass
class StartAttempts:
    """The recent results of starts of one provider, or of opening its sessions."""

    failures: int = 0
    failed_at: float = 0.0
    good_at: float | None = None
    slowest: float = 0.0
    """Seconds of the slowest recent success. It fades with each faster one."""
    _good_since: bool = False
    _fleeting: bool = False

    def succeed(self, now: float, seconds: float) -> None:
        """Record a success, which counts until a later failure."""
        self.good_at, self._good_since = now, True
        self.slowest = max(seconds, self.slowest * FADES)

    def fail(self, now: float, *, weight: int = 1, fleeting: bool = False) -> None:
        """Record a failure. `fleeting`: the attempt had been recorded as a success."""
        self.failures = self.in_a_row(now) + weight
        self.failed_at, self._good_since, self._fleeting = now, False, fleeting

    def in_a_row(self, now: float) -> int:
        """The failures since the last success. After a fleeting one, a success counts only when it has lasted `LASTS`
        seconds."""
        since = self.good_at if self._good_since else None
        mended = since is not None and (not self._fleeting or now - since >= LASTS)
        return 0 if mended else self.failures

    def too_many(self, now: float) -> bool:
        """Whether several attempts in a row failed recently."""
        return self.in_a_row(now) >= SEVERAL and now - self.failed_at < FORGIVEN_AFTER

    def overdue(self, seconds: float, late: float) -> bool:
        """Whether an attempt that takes this long is suspect."""
        return seconds >= max(late, self.slowest * SLOWER)

    def stuck(self, now: float, seconds: float, late: float) -> bool:
        """Whether an attempt in progress is suspect, and no other has succeeded since it began."""
        return self.overdue(seconds, late) and (self.good_at is None or self.good_at <= now - seconds)


@dataclass
class ProviderHealth:
    """Starts, session opens and served claims of one provider."""

    starts: StartAttempts = field(default_factory=StartAttempts)
    opens: StartAttempts = field(default_factory=StartAttempts)
    served_at: float | None = None

    def broken(self, now: float) -> bool:
        """Whether the next start or session is likely to fail."""
        if self.opens.too_many(now):
            return True
        served = self.served_at is not None and self.served_at >= self.starts.failed_at
        return self.starts.too_many(now) or (self.starts.in_a_row(now) > 0 and not served)

    def of(self, work: WorkKind) -> StartAttempts:
        """The attempts of this kind of work."""
        return self.starts if work is WorkKind.START else self.opens


def nothing_under_way() -> Iterable[UnderWay]:
    """The default for `under_way` until the pool exists."""
    return ()


def no_problems() -> Iterable[Problem]:
    """The default for `others` until the checks exist."""
    return ()


@dataclass
class Readiness(NoPoolObserver):
    """An observer of the pool that decides readiness."""

    clock: Callable[[], float] = field(kw_only=True)
    expects: bool = field(kw_only=True, default=False)
    """Whether keys are to be warmed, so that readiness waits for the first process."""
    late: float = field(kw_only=True, default=LATE)
    under_way: Callable[[], Iterable[UnderWay]] = field(kw_only=True, default=nothing_under_way)
    """Starts and opens in progress. Set after the pool is created, because the pool needs its observer first."""
    loops: Loops = field(kw_only=True, default_factory=Loops)
    """The loops that must not end while the gateway serves."""
    others: Callable[[], Iterable[Problem]] = field(kw_only=True, default=no_problems)
    """Problems found by `Checks`. Set after the checks are created."""
    tried: dict[str, ProviderHealth] = field(default_factory=dict)
    claims: Counter[str] = field(default_factory=Counter)
    """Claims since the start, by warmth."""

    @property
    def ready(self) -> bool:
        """Whether the gateway has no problem."""
        return not self.problems

    @property
    def problems(self) -> list[Problem]:
        """Why the gateway is not ready; empty if it is."""
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
        del miss, waited
        self.claims[warmth] += 1
        self._of(key.provider).served_at = self.clock()

    def started(self, provider: str, outcome: str, phase: str, seconds: float) -> None:
        health, now = self._of(provider), self.clock()
        if outcome == STARTED:
            health.starts.succeed(now, seconds)
            health.served_at = now
        else:
            vain = phase == Phase.SPAWN or health.starts.overdue(seconds, self.late)
            health.starts.fail(now, weight=SEVERAL if vain else 1)

    def opened(self, provider: str, outcome: str, seconds: float) -> None:
        opens = self._of(provider).opens
        if outcome == OPENED:
            opens.succeed(self.clock(), seconds)
        elif outcome != LOST:  # lost with its process, whose end is counted elsewhere
            opens.fail(self.clock(), weight=SEVERAL if opens.overdue(seconds, self.late) else 1)

    def noted(self, provider: str, what: str, cause: str) -> None:
        if (what, cause) == (Counted.START_FAILED.value, RetireReason.DIED.value):
            self._of(provider).starts.fail(self.clock(), fleeting=True)

    def _is_stuck(self, work: UnderWay, now: float) -> bool:
        health = self.tried.get(work.provider) or ProviderHealth()
        return health.of(work.work).stuck(now, work.seconds, self.late)

    def _of(self, provider: str) -> ProviderHealth:
        return self.tried.setdefault(provider, ProviderHealth())
