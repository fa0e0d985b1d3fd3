"""From the core's no to a typed error that carries the facts. Rule: one row a kind, and every kind has a row."""

from ostler.pool.core.actions import Refuse
from ostler.pool.core.values import Census, Refusal
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
from ostler.pool.roster import PoolKey


def census_text(census: Census) -> str:
    """The pool in one line."""
    budget = "" if census.memory_budget is None else f" of {census.memory_budget >> 20}"
    return (
        f"{census.processes} of {census.max_processes} processes ({census.starting} starting, {census.ready} ready, "
        f"{census.dying} ending), {census.leased} seats leased, {census.parked} parked, {census.waiting} claims waiting, "
        f"{census.memory >> 20}{budget} MiB"
    )


def refusal_error(refuse: Refuse, key: PoolKey, failure: PoolError | None) -> PoolError:
    """What the claimer gets to see. `failure` is the typed error behind the core's text, where there is one."""
    provider = key.key.provider
    match refuse.kind:
        case Refusal.CLOSED:
            return PoolClosed()
        case Refusal.START_FAILED | Refusal.OPEN_FAILED:
            if failure is not None:
                return failure.again()
            phase = Phase.SESSION_OPEN if refuse.kind is Refusal.OPEN_FAILED else Phase.SPAWN
            return AgentStartFailed(provider=provider, phase=phase, command=(), why=refuse.text, waited=refuse.waited)
        case Refusal.BREAKER_OPEN:
            return BreakerOpen(
                provider=provider, retry_after=refuse.retry_after or 0.0, last_failure=refuse.text or "not recorded"
            )
        case Refusal.PAUSED:
            return PoolPaused(key=str(key), waited=refuse.waited)
        case Refusal.DEADLOCK:
            return NestedClaimRefused(key=str(key), census=census_text(refuse.census))
        case Refusal.SATURATED:
            return PoolSaturated(
                what=f"no seat for {key} after {refuse.waited:.1f} s",
                census=census_text(refuse.census),
                retry_after=refuse.retry_after or 1.0,
                last_failure=refuse.text or None,
            )
        case Refusal.UNKNOWN_KEY:
            raise AssertionError(f"the pool's shell broke the core's rules: {refuse}")
