"""Starting processes: what is missing, whether it may start, and what happens to waiting claims when it may not.

Rules:
- Claims share a start: another one begins only when more seats are wanted than are free or on their way.
- Reserved, live and dying processes all count against the caps, each until its whole tree is reaped.
- Starts are bounded in number (over all, per provider) and in rate (a token bucket): no storm after many processes died
  at once.
- Where first starts on a HOME get in each other's way, the second is ordered when the first is ready or gone. In a
  queue of the runner it would use up its start timeout, and fail without having been tried.
- While a fingerprint fails, it is started one at a time; its claims fail fast when nothing else can serve them.
- Starts ahead are deferred for a first answer (see `deferral`).
- A waiting claim may take the place of an idle process, least recently used first; a reserve never may.
"""

from enum import Enum

from ostler.pool.core.actions import AdoptSlot, StartSlot
from ostler.pool.core.budget import make_room
from ostler.pool.core.deferral import spare_is_deferred, start_is_deferred
from ostler.pool.core.outcomes import refuse
from ostler.pool.core.queueing import Waiting
from ostler.pool.core.reserve import is_tight, key_cap, processes_wanted
from ostler.pool.core.state import KeyState, PoolState, SlotRecord
from ostler.pool.core.values import KeySpec, QueueId, RefusalKind, SeatState, SlotState, Traits


class Denial(Enum):
    """Why a process may not start now."""

    BREAKER = "breaker"
    BACKOFF = "backoff"
    KEY_CAP = "key_cap"
    POOL_CAP = "pool_cap"
    MEMORY = "memory"
    STARTING = "starting"
    RATE = "rate"


CAPS = frozenset({Denial.KEY_CAP, Denial.POOL_CAP, Denial.MEMORY})


def demand(key_state: KeyState) -> int:
    """Seats that claims need beyond those being opened."""
    seats = 0
    for queue in key_state.queues.values():
        if queue.claims.count > queue.opening:
            seats += queue.claims.count - queue.opening
    return seats


def can_serve_soon(key_state: KeyState) -> bool:
    """Whether a process of the key is ready or starting that may yet serve its claims."""
    for slot in key_state.slots.values():
        if slot.state is SlotState.STARTING or (slot.state is SlotState.READY and not slot.shunned):
            return True
    return False


def supply(key_state: KeyState) -> int:
    """Seats free now, or on their way with a start."""
    seats = 0
    for slot in key_state.slots.values():
        seats += slot.capacity if slot.state is SlotState.STARTING else slot.room
    return seats


def take_from_reserve(state: PoolState, key_state: KeyState) -> bool:
    """Move one process from the key's reserve to the key if its claims need one, and return whether it did. Best is a
    process with a parked seat of the wanted tools, last one that is still starting.
    """
    reserve = None if key_state.spec.reserve is None else state.keys.get(key_state.spec.reserve)
    if reserve is None or not reserve.slots or demand(key_state) <= supply(key_state):
        return False
    if len(key_state.slots) >= key_cap(state, key_state):
        return False
    wanted = {queue.id for queue in key_state.queues.values() if queue.claims.count > queue.opening}
    fitting = [
        (_readiness(slot, wanted), slot.id, slot)
        for slot in reserve.slots.values()
        if slot.untouched and slot.spec.group == key_state.spec.group
    ]
    best = min(fitting, key=lambda one: one[:2], default=None)
    if best is None or best[0] == USELESS:
        return False
    state.take_over(best[2], reserve, key_state)
    state.emit(AdoptSlot(best[2].id, key_state.key))
    return True


USELESS = 4


def _readiness(slot: SlotRecord, wanted: set[QueueId]) -> int:
    """How soon an untouched process has a seat of the wanted queues; smaller is sooner."""
    states = {seat.state for seat in slot.seats.values() if seat.queue.id in wanted}
    if SeatState.PARKED in states:
        return 0
    if SeatState.OPENING in states:
        return 1
    if slot.room:
        return 2
    return 3 if slot.state is SlotState.STARTING else USELESS


def adopt_spares(state: PoolState, key_state: KeyState) -> bool:
    """Give the key the spares it needs, ready ones before starting ones. True if it got any."""
    adopted = False
    while state.spares and (slot := _fitting_spare(state, key_state)) is not None:
        state.adopt(slot, key_state)
        state.emit(AdoptSlot(slot.id, key_state.key))
        adopted = True
    return adopted


def _fitting_spare(state: PoolState, key_state: KeyState) -> SlotRecord | None:
    if not key_state.spec.traits.cwd_per_session or demand(key_state) <= supply(key_state):
        return None
    if len(key_state.slots) >= key_cap(state, key_state):
        return None
    fitting = [
        slot
        for slot in state.spares.values()
        if slot.spec.group == key_state.spec.group and slot.state in {SlotState.READY, SlotState.STARTING}
    ]
    return min(fitting, key=lambda slot: (slot.state is SlotState.STARTING, slot.id), default=None)


def start_missing(state: PoolState, key_state: KeyState) -> None:
    """Start what waiting claims need; if they lack nothing, start what is to be kept warm."""
    short = demand(key_state) - supply(key_state)
    while short > 0:
        denied = denial(state, key_state, background=False)
        if denied is not None:
            _starve(state, key_state, denied, short)
            return
        start(state, key_state.spec, key_state, key_state)
        short -= key_state.spec.traits.seats_per_process
    missing = processes_wanted(state, key_state) - processes_up(key_state)
    if missing <= 0:
        key_state.gave_way_at = None
        return
    while missing > 0 and not start_is_deferred(state, key_state) and denial(state, key_state, background=True) is None:
        start(state, key_state.spec, key_state, key_state)
        missing -= 1
    if missing > 0:
        state.mark_unserved(key_state)


def processes_up(key_state: KeyState) -> int:
    """Processes that can serve the key from now on: starting or ready, and not to be replaced."""
    up = 0
    for slot in key_state.slots.values():
        if slot.retire is None and (slot.state is SlotState.STARTING or slot.state is SlotState.READY):
            up += 1
    return up


def start(state: PoolState, spec: KeySpec, key_state: KeyState, owner: KeyState | None) -> SlotRecord:
    """Reserve the slot and order its start. Without an owner the process is a spare."""
    if owner is not None:
        state.take_turns(key_state)
    slot = state.add_slot(key_state.key, spec, owner, _expected(key_state))
    state.tokens -= 1.0
    state.alarm(state.now + state.limits.start_timeout)
    state.emit(StartSlot(slot.id, key_state.key, spec.fingerprint, owner is None))
    return slot


def ensure_spares(state: PoolState) -> None:
    """Bring every group of interchangeable processes up to the most spares that any of its keys asks for."""
    for key_state in state.keys.values():
        if not key_state.spares or key_state.paused:
            continue
        there = sum(slot.spec.group == key_state.spec.group for slot in state.spares.values())
        if there >= key_state.spares:
            key_state.spares_gave_way_at = None
        elif spare_is_deferred(state, key_state):
            state.recount_spares = True
            continue
        while there < key_state.spares and denial(state, key_state, background=True, spare=True) is None:
            start(state, key_state.spec, key_state, None)
            there += 1


def denial(state: PoolState, key_state: KeyState, *, background: bool, spare: bool = False) -> Denial | None:
    """Why no process may be started now for the key, or no spare like its own."""
    if (failing := _failing(state, key_state.spec, background=background)) is not None:
        return failing
    if not spare and len(key_state.slots) >= key_cap(state, key_state):
        return Denial.KEY_CAP
    if len(state.slots) >= state.limits.max_processes:
        return Denial.POOL_CAP
    if is_tight(state, _expected(key_state)):
        return Denial.MEMORY
    return _throttled(state, key_state.spec)


def _failing(state: PoolState, spec: KeySpec, *, background: bool) -> Denial | None:
    breaker = state.breakers.get(spec.group) if state.breakers else None
    if breaker is None:
        return None
    allowed_at = breaker.ahead_after if background else breaker.claims_after
    if state.now < allowed_at:
        state.alarm(allowed_at)
        return Denial.BREAKER if breaker.is_open(state.now, state.limits) else Denial.BACKOFF
    trying = any(slot.state is SlotState.STARTING and slot.spec.group == spec.group for slot in state.slots.values())
    return Denial.STARTING if trying else None


def _throttled(state: PoolState, spec: KeySpec) -> Denial | None:
    limits = state.limits
    if state.starting >= limits.max_starting or first_is_on_its_way(state, spec.traits):
        return Denial.STARTING
    if provider_is_starting(state, spec):
        return Denial.STARTING
    earn(state)
    if state.tokens < 1.0:
        state.alarm(state.now + (1.0 - state.tokens) / limits.starts_per_second)
        return Denial.RATE
    return None


def provider_is_starting(state: PoolState, spec: KeySpec) -> bool:
    """Whether the provider has as many starts under way as it may. Read-only: records nothing."""
    alike = sum(
        slot.state is SlotState.STARTING and slot.spec.provider == spec.provider for slot in state.slots.values()
    )
    return alike >= state.limits.max_starting_per_provider


def first_is_on_its_way(state: PoolState, traits: Traits) -> bool:
    """Whether the first start in this HOME group is unfinished, a failed one that is still being ended included: it may
    hold what every first start creates. Read-only: records nothing.
    """
    if not traits.first_start_alone or traits.open_group in state.settled_groups:
        return False
    return any(slot.spec.traits.open_group == traits.open_group for slot in state.slots.values() if slot.ready_step < 0)


def earn(state: PoolState) -> None:
    """Fill the token bucket of starts up to now."""
    state.tokens, state.tokens_at = state.tokens_now, state.now


def _expected(key_state: KeyState) -> int:
    """The memory a ready process needs: as measured on the last one, else as declared."""
    return key_state.start_bytes or key_state.spec.traits.start_bytes


def _starve(state: PoolState, key_state: KeyState, denied: Denial, short: int) -> None:
    """Claims stay short of seats: make room where a cap is the reason, refuse at once where waiting cannot help."""
    state.mark_unserved(key_state)
    if denied in CAPS:
        made = make_room(state, key_state, short, elsewhere=denied is not Denial.KEY_CAP)
        if denied is Denial.MEMORY and not made and not key_state.slots:
            refuse_all(state, key_state, RefusalKind.SATURATED, text="a process more would exceed the memory budget")
    elif denied in {Denial.BREAKER, Denial.BACKOFF} and not can_serve_soon(key_state):
        breaker = state.breakers[key_state.spec.group]
        retry_after = breaker.claims_after - state.now
        for waiting in all_waiting(key_state):
            if denied is Denial.BREAKER or waiting.deadline < breaker.claims_after:
                refuse(state, waiting, RefusalKind.BREAKER_OPEN, retry_after=retry_after)


def all_waiting(key_state: KeyState) -> list[Waiting]:
    """The waiting claims of the key, as a copy: the caller may refuse them while it iterates."""
    return [waiting for queue in key_state.queues.values() for waiting in queue.claims]


def refuse_all(state: PoolState, key_state: KeyState, kind: RefusalKind, *, phase: str = "", text: str = "") -> None:
    for waiting in all_waiting(key_state):
        refuse(state, waiting, kind, phase=phase, text=text)


def refuse_unserved(state: PoolState, key_state: KeyState, phase: str, text: str) -> None:
    """A start failed: refuse the claims that nothing else on its way can serve, the oldest first, with its error."""
    short = demand(key_state) - supply(key_state)
    if short <= 0:
        return
    waiting = sorted(all_waiting(key_state), key=lambda one: one.step)
    for one in waiting if not can_serve_soon(key_state) else waiting[:short]:
        refuse(state, one, RefusalKind.START_FAILED, phase=phase, text=text)
