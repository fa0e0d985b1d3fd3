"""Why a key is kept as warm as it is: the numbers behind every target, and what holds a start back.

Rules: read-only. Asking changes no decision, sets no alarm and takes no token, so an operator may ask at any time.
"""

from dataclasses import dataclass
from enum import Enum

from ostler.pool.core.census import tools_text
from ostler.pool.core.deferral import is_deferred_now
from ostler.pool.core.reserve import deficit, is_tight, key_cap, processes_wanted, refill_seconds
from ostler.pool.core.starts import demand, first_is_on_its_way, processes_up, provider_is_starting, supply
from ostler.pool.core.state import KeyState, PoolState, SeatQueue
from ostler.pool.core.values import Key


class TargetReason(Enum):
    """What decided the target of a seat queue."""

    QUIET = "quiet"
    """Claims are too rare to keep a seat for, and no floor is set."""
    STEADY = "steady"
    BURST = "burst"
    FLOOR = "floor"
    MOST = "most"
    """More was wanted than the reserve rule allows."""


class Hold(Enum):
    """What prevents another start now."""

    POOL_PAUSED = "pool_paused"
    KEY_PAUSED = "key_paused"
    BACKOFF = "backoff"
    KEY_CAP = "key_cap"
    POOL_CAP = "pool_cap"
    MEMORY = "memory"
    STARTING = "starting"
    PROVIDER_STARTING = "provider_starting"
    FIRST_START = "first_start"
    """The first process on a HOME is starting, and its provider starts that one alone."""
    FIRST_ANSWER = "first_answer"
    """Starts ahead are deferred for a claim that waits for a start, an open or a first answer."""


@dataclass(frozen=True, slots=True)
class SeatQueueReasons:
    """One tool set of a key. `expected` is the number of arrivals within `refill_seconds`."""

    tools: str
    target: int
    because: TargetReason
    parked: int
    opening: int
    missing: int
    arrivals_per_minute: float
    refill_seconds: float
    expected: float
    steady: int
    burst: int
    floor: int
    most: int


@dataclass(frozen=True, slots=True)
class KeyReasons:
    """One key: its processes, its claims, and what holds starts back."""

    processes: int
    processes_wanted: int
    process_cap: int
    waiting: int
    holds: tuple[Hold, ...]
    retry_in: float
    last_failure: str
    lines: tuple[SeatQueueReasons, ...]


def reasons(state: PoolState, key: Key) -> KeyReasons | None:
    """The reasons as of now; None if the pool does not know the key."""
    key_state = state.keys.get(key)
    if key_state is None:
        return None
    breaker = state.breakers.get(key_state.spec.group)
    return KeyReasons(
        processes=processes_up(key_state),
        processes_wanted=processes_wanted(state, key_state),
        process_cap=key_cap(state, key_state),
        waiting=key_state.waiting,
        holds=tuple(_holds(state, key_state)),
        retry_in=max(0.0, breaker.claims_after - state.now) if breaker else 0.0,
        last_failure=breaker.last.text if breaker else "",
        lines=tuple(_queue_reasons(state, key_state, queue) for queue in key_state.queues.values()),
    )


def _queue_reasons(state: PoolState, key_state: KeyState, queue: SeatQueue) -> SeatQueueReasons:
    refill, most = refill_seconds(key_state), state.limits.reserve.most
    judged = queue.arrivals.judgement(state.now, refill)
    votes = {
        TargetReason.FLOOR: queue.floor,
        TargetReason.STEADY: judged.steady,
        TargetReason.BURST: judged.burst,
    }
    because = max(votes, key=lambda reason: votes[reason])
    wanted = votes[because]
    if not wanted:
        because = TargetReason.QUIET
    elif wanted > most:
        because = TargetReason.MOST
    return SeatQueueReasons(
        tools=tools_text(queue.tools),
        target=min(wanted, most),
        because=because,
        parked=len(queue.parked),
        opening=queue.opening,
        missing=max(0, deficit(state, key_state, queue)),
        arrivals_per_minute=judged.rate * 60.0,
        refill_seconds=refill,
        expected=judged.expected,
        steady=judged.steady,
        burst=judged.burst,
        floor=queue.floor,
        most=most,
    )


def _holds(state: PoolState, key_state: KeyState) -> list[Hold]:
    breaker = state.breakers.get(key_state.spec.group)
    expected = key_state.start_bytes or key_state.spec.traits.start_bytes
    holds = {
        Hold.POOL_PAUSED: state.paused,
        Hold.KEY_PAUSED: key_state.paused,
        Hold.BACKOFF: breaker is not None and breaker.claims_after > state.now,
        Hold.KEY_CAP: len(key_state.slots) >= key_cap(state, key_state),
        Hold.POOL_CAP: len(state.slots) >= state.limits.max_processes,
        Hold.MEMORY: is_tight(state, expected),
        Hold.STARTING: state.starting >= state.limits.max_starting,
        Hold.PROVIDER_STARTING: provider_is_starting(state, key_state.spec),
        Hold.FIRST_START: first_is_on_its_way(state, key_state.spec.traits),
        Hold.FIRST_ANSWER: _makes_way(state, key_state),
    }
    return [hold for hold, holding in holds.items() if holding]


def _makes_way(state: PoolState, key_state: KeyState) -> bool:
    """Whether the last attempt was deferred and another would be too: not while paused, nor while claims need a
    start.
    """
    if state.paused or key_state.paused or demand(key_state) > supply(key_state):
        return False
    return processes_wanted(state, key_state) > processes_up(key_state) and is_deferred_now(state, key_state)
