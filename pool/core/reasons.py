"""Why a key is kept as warm as it is: the numbers behind every target, and what holds a start back.

Rules: read-only. Asking changes no decision, sets no alarm and takes no token, so an operator may ask at any time.
"""

from dataclasses import dataclass
from enum import Enum

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
    HINT = "hint"
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
    hinted_for: float
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


def reasons(books: PoolState, key: Key) -> KeyReasons | None:
    """The reasons as of now; None if the pool does not know the key."""
    stable = books.stables.get(key)
    if stable is None:
        return None
    breaker = books.breakers.get(stable.spec.group)
    return KeyReasons(
        processes=processes_up(stable),
        processes_wanted=processes_wanted(books, stable),
        process_cap=key_cap(books, stable),
        waiting=stable.waiting,
        holds=tuple(_holds(books, stable)),
        retry_in=max(0.0, breaker.claims_after - books.now) if breaker else 0.0,
        last_failure=breaker.last.text if breaker else "",
        lines=tuple(_line(books, stable, line) for line in stable.queues.values()),
    )


def _line(books: PoolState, stable: KeyState, line: SeatQueue) -> SeatQueueReasons:
    refill, most = refill_seconds(stable), books.limits.reserve.most
    judged = line.arrivals.judgement(books.now, refill)
    hinted_for = max(0.0, line.hint_until - books.now)
    votes = {
        TargetReason.FLOOR: line.floor,
        TargetReason.STEADY: judged.steady,
        TargetReason.BURST: judged.burst,
        TargetReason.HINT: 1 if hinted_for else 0,
    }
    because = max(votes, key=lambda reason: votes[reason])
    wanted = votes[because]
    if not wanted:
        because = TargetReason.QUIET
    elif wanted > most:
        because = TargetReason.MOST
    return SeatQueueReasons(
        tools=line.tools,
        target=min(wanted, most),
        because=because,
        parked=len(line.parked),
        opening=line.opening,
        missing=max(0, deficit(books, stable, line)),
        arrivals_per_minute=judged.rate * 60.0,
        refill_seconds=refill,
        expected=judged.expected,
        steady=judged.steady,
        burst=judged.burst,
        floor=line.floor,
        hinted_for=hinted_for,
        most=most,
    )


def _holds(books: PoolState, stable: KeyState) -> list[Hold]:
    breaker = books.breakers.get(stable.spec.group)
    expected = stable.start_bytes or stable.spec.traits.start_bytes
    holds = {
        Hold.POOL_PAUSED: books.paused,
        Hold.KEY_PAUSED: stable.paused,
        Hold.BACKOFF: breaker is not None and breaker.claims_after > books.now,
        Hold.KEY_CAP: len(stable.slots) >= key_cap(books, stable),
        Hold.POOL_CAP: len(books.slots) >= books.limits.max_processes,
        Hold.MEMORY: is_tight(books, expected),
        Hold.STARTING: books.starting >= books.limits.max_starting,
        Hold.PROVIDER_STARTING: provider_is_starting(books, stable.spec),
        Hold.FIRST_START: first_is_on_its_way(books, stable.spec.traits),
        Hold.FIRST_ANSWER: _makes_way(books, stable),
    }
    return [hold for hold, holding in holds.items() if holding]


def _makes_way(books: PoolState, stable: KeyState) -> bool:
    """Whether the last attempt was deferred and another would be too: not while paused, nor while claims need a
    start.
    """
    if books.paused or stable.paused or demand(stable) > supply(stable):
        return False
    return processes_wanted(books, stable) > processes_up(stable) and is_deferred_now(books, stable)
