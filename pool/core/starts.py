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
from ostler.pool.core.values import KeySpec, RefusalKind, SeatState, SlotState, Traits


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


def demand(stable: KeyState) -> int:
    """Seats (or one transport) that claims need beyond those being opened."""
    seats = 0
    for line in stable.queues.values():
        if line.ring.count > line.opening:
            seats += line.ring.count - line.opening
    return seats + 1 if stable.transports.count and not can_serve_soon(stable) else seats


def can_serve_soon(stable: KeyState) -> bool:
    """Whether a process of the key is ready or starting that may yet serve its claims."""
    for slot in stable.slots.values():
        if slot.state is SlotState.STARTING or (slot.state is SlotState.READY and not slot.shunned):
            return True
    return False


def supply(stable: KeyState) -> int:
    """Seats free now, or on their way with a start."""
    seats = 0
    for slot in stable.slots.values():
        seats += slot.capacity if slot.state is SlotState.STARTING else slot.room
    return seats


def take_from_reserve(books: PoolState, stable: KeyState) -> bool:
    """Move one process from the key's reserve to the key if its claims need one, and return whether it did. Best is a
    process with a parked seat of the wanted tools, last one that is still starting.
    """
    reserve = None if stable.spec.reserve is None else books.stables.get(stable.spec.reserve)
    if reserve is None or not reserve.slots or demand(stable) <= supply(stable):
        return False
    if len(stable.slots) >= key_cap(books, stable):
        return False
    wanted = {line.tools for line in stable.queues.values() if line.ring.count > line.opening}
    fitting = [
        (_readiness(slot, wanted), slot.id, slot)
        for slot in reserve.slots.values()
        if slot.untouched and slot.spec.group == stable.spec.group
    ]
    best = min(fitting, key=lambda one: one[:2], default=None)
    if best is None or best[0] == USELESS:
        return False
    books.take_over(best[2], reserve, stable)
    books.emit(AdoptSlot(best[2].id, stable.key))
    return True


USELESS = 4


def _readiness(slot: SlotRecord, wanted: set[str]) -> int:
    """How soon an untouched process has a seat with the wanted tools; smaller is sooner."""
    states = {seat.state for seat in slot.seats.values() if seat.line.tools in wanted}
    if SeatState.PARKED in states:
        return 0
    if SeatState.OPENING in states:
        return 1
    if slot.room:
        return 2
    return 3 if slot.state is SlotState.STARTING else USELESS


def adopt_spares(books: PoolState, stable: KeyState) -> bool:
    """Give the key the spares it needs, ready ones before starting ones. True if it got any."""
    adopted = False
    while books.spares and (slot := _fitting_spare(books, stable)) is not None:
        books.adopt(slot, stable)
        books.emit(AdoptSlot(slot.id, stable.key))
        adopted = True
    return adopted


def _fitting_spare(books: PoolState, stable: KeyState) -> SlotRecord | None:
    if not stable.spec.traits.cwd_per_session or demand(stable) <= supply(stable):
        return None
    if len(stable.slots) >= key_cap(books, stable):
        return None
    fitting = [
        slot
        for slot in books.spares.values()
        if slot.spec.group == stable.spec.group and slot.state in {SlotState.READY, SlotState.STARTING}
    ]
    return min(fitting, key=lambda slot: (slot.state is SlotState.STARTING, slot.id), default=None)


def start_missing(books: PoolState, stable: KeyState) -> None:
    """Start what waiting claims need; if they lack nothing, start what is to be kept warm."""
    short = demand(stable) - supply(stable)
    while short > 0:
        denied = denial(books, stable, background=False)
        if denied is not None:
            _starve(books, stable, denied, short)
            return
        start(books, stable.spec, stable, stable)
        short -= stable.spec.traits.seats_per_process
    missing = processes_wanted(books, stable) - processes_up(stable)
    if missing <= 0:
        stable.gave_way_at = None
        return
    while missing > 0 and not start_is_deferred(books, stable) and denial(books, stable, background=True) is None:
        start(books, stable.spec, stable, stable)
        missing -= 1
    if missing > 0:
        books.unserved_keys[stable.key] = stable


def processes_up(stable: KeyState) -> int:
    """Processes that can serve the key from now on: starting or ready, and not to be replaced."""
    up = 0
    for slot in stable.slots.values():
        if slot.retire is None and (slot.state is SlotState.STARTING or slot.state is SlotState.READY):
            up += 1
    return up


def start(books: PoolState, spec: KeySpec, stable: KeyState, owner: KeyState | None) -> SlotRecord:
    """Reserve the slot and order its start. Without an owner the process is a spare."""
    if owner is not None:
        for ring in stable.rings():
            if (head := ring.head()) is not None:
                books.turns.took(head.owner)
    slot = books.add_slot(stable.key, spec, owner, _expected(stable))
    books.tokens -= 1.0
    books.alarm(books.now + books.limits.start_timeout)
    books.emit(StartSlot(slot.id, stable.key, spec.fingerprint, slot.generation, owner is None))
    return slot


def ensure_spares(books: PoolState) -> None:
    """Bring every group of interchangeable processes up to the most spares that any of its keys asks for."""
    for stable in books.stables.values():
        if not stable.spares or stable.paused:
            continue
        there = sum(slot.spec.group == stable.spec.group for slot in books.spares.values())
        if there >= stable.spares:
            stable.spares_gave_way_at = None
        elif spare_is_deferred(books, stable):
            books.recount_spares = True
            continue
        while there < stable.spares and denial(books, stable, background=True, spare=True) is None:
            start(books, stable.spec, stable, None)
            there += 1


def denial(books: PoolState, stable: KeyState, *, background: bool, spare: bool = False) -> Denial | None:
    """Why no process may be started now for the key, or no spare like its own."""
    if (failing := _failing(books, stable.spec, background=background)) is not None:
        return failing
    if not spare and len(stable.slots) >= key_cap(books, stable):
        return Denial.KEY_CAP
    if len(books.slots) >= books.limits.max_processes:
        return Denial.POOL_CAP
    if is_tight(books, _expected(stable)):
        return Denial.MEMORY
    return _throttled(books, stable.spec)


def _failing(books: PoolState, spec: KeySpec, *, background: bool) -> Denial | None:
    breaker = books.breakers.get(spec.group) if books.breakers else None
    if breaker is None:
        return None
    allowed_at = breaker.ahead_after if background else breaker.claims_after
    if books.now < allowed_at:
        books.alarm(allowed_at)
        return Denial.BREAKER if breaker.is_open(books.now, books.limits) else Denial.BACKOFF
    trying = any(slot.state is SlotState.STARTING and slot.spec.group == spec.group for slot in books.slots.values())
    return Denial.STARTING if trying else None


def _throttled(books: PoolState, spec: KeySpec) -> Denial | None:
    limits = books.limits
    if books.starting >= limits.max_starting or first_is_on_its_way(books, spec.traits):
        return Denial.STARTING
    if provider_is_starting(books, spec):
        return Denial.STARTING
    earn(books)
    if books.tokens < 1.0:
        books.alarm(books.now + (1.0 - books.tokens) / limits.starts_per_second)
        return Denial.RATE
    return None


def provider_is_starting(books: PoolState, spec: KeySpec) -> bool:
    """Whether the provider has as many starts under way as it may. Read-only: records nothing."""
    alike = sum(
        slot.state is SlotState.STARTING and slot.spec.provider == spec.provider for slot in books.slots.values()
    )
    return alike >= books.limits.max_starting_per_provider


def first_is_on_its_way(books: PoolState, traits: Traits) -> bool:
    """Whether the first start in this HOME group is unfinished, a failed one that is still being ended included: it may
    hold what every first start creates. Read-only: records nothing.
    """
    if not traits.first_start_alone or traits.open_group in books.settled_groups:
        return False
    return any(slot.spec.traits.open_group == traits.open_group for slot in books.slots.values() if slot.ready_step < 0)


def earn(books: PoolState) -> None:
    """Fill the token bucket of starts up to now."""
    books.tokens, books.tokens_at = books.tokens_now, books.now


def _expected(stable: KeyState) -> int:
    """The memory a ready process needs: as measured on the last one, else as declared."""
    return stable.start_bytes or stable.spec.traits.start_bytes


def _starve(books: PoolState, stable: KeyState, denied: Denial, short: int) -> None:
    """Claims stay short of seats: make room where a cap is the reason, refuse at once where waiting cannot help."""
    books.unserved_keys[stable.key] = stable
    if denied in CAPS:
        made = make_room(books, stable, short, elsewhere=denied is not Denial.KEY_CAP)
        if denied is Denial.MEMORY and not made and not stable.slots:
            refuse_all(books, stable, RefusalKind.SATURATED, text="a process more would exceed the memory budget")
    elif denied in {Denial.BREAKER, Denial.BACKOFF} and not can_serve_soon(stable):
        breaker = books.breakers[stable.spec.group]
        retry_after = breaker.claims_after - books.now
        for waiting in all_waiting(stable):
            if denied is Denial.BREAKER or waiting.deadline < breaker.claims_after:
                refuse(books, waiting, RefusalKind.BREAKER_OPEN, retry_after=retry_after)


def all_waiting(stable: KeyState) -> list[Waiting]:
    """The waiting claims of the key, as a copy: the caller may refuse them while it iterates."""
    return [waiting for ring in stable.rings() for waiting in ring]


def refuse_all(books: PoolState, stable: KeyState, kind: RefusalKind, *, phase: str = "", text: str = "") -> None:
    for waiting in all_waiting(stable):
        refuse(books, waiting, kind, phase=phase, text=text)


def refuse_unserved(books: PoolState, stable: KeyState, phase: str, text: str) -> None:
    """A start failed: refuse the claims that nothing else on its way can serve, the oldest first, with its error."""
    short = demand(stable) - supply(stable)
    if short <= 0:
        return
    waiting = sorted(all_waiting(stable), key=lambda one: one.step)
    for one in waiting if not can_serve_soon(stable) else waiting[:short]:
        refuse(books, one, RefusalKind.START_FAILED, phase=phase, text=text)
