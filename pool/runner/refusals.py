"""From the core's refusal to a typed error with its facts."""

from ostler.pool.core.actions import Refuse
from ostler.pool.core.values import PoolCensus, RefusalKind
from ostler.pool.errors import (
    AgentStartFailed,
    BreakerOpen,
    NestedClaimRefused,
    Phase,
    PoolClosed,
    PoolError,
    PoolPaused,
    PoolSaturated,
)
from ostler.pool.keys import PoolKey


class ForgottenKey(AssertionError):
    """A claim for a key that was not registered: a defect of the runner."""


def census_text(census: PoolCensus) -> str:
    """The pool's numbers in one line."""
    budget = "" if census.memory_budget is None else f" of {census.memory_budget >> 20}"
    return (
        f"{census.processes} of {census.max_processes} processes "
        f"({census.starting} starting, {census.ready} ready, {census.dying} ending), "
        f"{census.leased} seats leased, {census.parked} parked, {census.waiting} claims waiting, "
        f"{census.memory >> 20}{budget} MiB"
    )


def refusal_error(refuse: Refuse, key: PoolKey, failure: PoolError | None) -> PoolError:
    """The error that the caller of a claim gets. `failure` is the key's last typed error; it is used only if its text
    is the one that the core quotes.

    The core's own timeouts, and errors without a type, do not replace an older typed error, which had another cause.
    """
    told = refuse.kind in (RefusalKind.START_FAILED, RefusalKind.OPEN_FAILED)
    if failure is not None and told and str(failure) == refuse.text:
        return failure.again()
    return _typed(refuse, key)


def _typed(refuse: Refuse, key: PoolKey) -> PoolError:
    provider, waited, text = key.key.provider, refuse.waited, refuse.text
    match refuse.kind:
        case RefusalKind.CLOSED:
            return PoolClosed()
        case RefusalKind.START_FAILED | RefusalKind.OPEN_FAILED:
            phase = Phase.SESSION_OPEN if refuse.kind is RefusalKind.OPEN_FAILED else Phase.SPAWN
            return AgentStartFailed(provider=provider, phase=phase, command=(), why=text, waited=waited)
        case RefusalKind.BREAKER_OPEN:
            retry_after = refuse.retry_after or 0.0
            return BreakerOpen(provider=provider, retry_after=retry_after, last_failure=text or "not recorded")
        case RefusalKind.PAUSED:
            return PoolPaused(key=str(key), waited=waited)
        case RefusalKind.DEADLOCK:
            return NestedClaimRefused(key=str(key), census=census_text(refuse.census))
        case RefusalKind.SATURATED:
            return PoolSaturated(
                what=f"no seat for {key} after {waited:.1f} s",
                census=census_text(refuse.census),
                retry_after=refuse.retry_after or 1.0,
                last_failure=text or None,
            )
        case RefusalKind.UNKNOWN_KEY:
            raise ForgottenKey(f"{key} was claimed without being registered")
