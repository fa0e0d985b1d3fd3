"""From the core's refusal to a typed error with its facts.

Rules: one row per kind of refusal, and every kind has a row.
"""

from collections.abc import Callable, Mapping
from types import MappingProxyType

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
    return ROWS[refuse.kind](refuse, key)


def _closed(_refuse: Refuse, _key: PoolKey) -> PoolError:
    return PoolClosed()


def _failed(refuse: Refuse, key: PoolKey) -> PoolError:
    phase = Phase.SESSION_OPEN if refuse.kind is RefusalKind.OPEN_FAILED else Phase.SPAWN
    return AgentStartFailed(provider=key.key.provider, phase=phase, command=(), why=refuse.text, waited=refuse.waited)


def _breaker_open(refuse: Refuse, key: PoolKey) -> PoolError:
    return BreakerOpen(
        provider=key.key.provider, retry_after=refuse.retry_after or 0.0, last_failure=refuse.text or "not recorded"
    )


def _paused(refuse: Refuse, key: PoolKey) -> PoolError:
    return PoolPaused(key=str(key), waited=refuse.waited)


def _deadlock(refuse: Refuse, key: PoolKey) -> PoolError:
    return NestedClaimRefused(key=str(key), census=census_text(refuse.census))


def _saturated(refuse: Refuse, key: PoolKey) -> PoolError:
    return PoolSaturated(
        what=f"no seat for {key} after {refuse.waited:.1f} s",
        census=census_text(refuse.census),
        retry_after=refuse.retry_after or 1.0,
        last_failure=refuse.text or None,
    )


def _forgotten(_refuse: Refuse, key: PoolKey) -> PoolError:
    raise ForgottenKey(f"{key} was claimed without being registered")


ROWS: Mapping[RefusalKind, Callable[[Refuse, PoolKey], PoolError]] = MappingProxyType(
    {
        RefusalKind.CLOSED: _closed,
        RefusalKind.START_FAILED: _failed,
        RefusalKind.OPEN_FAILED: _failed,
        RefusalKind.BREAKER_OPEN: _breaker_open,
        RefusalKind.PAUSED: _paused,
        RefusalKind.DEADLOCK: _deadlock,
        RefusalKind.SATURATED: _saturated,
        RefusalKind.UNKNOWN_KEY: _forgotten,
    }
)
