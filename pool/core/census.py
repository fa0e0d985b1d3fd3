"""The pool as plain data: the census for a refusal, the snapshot for the operator's console."""

from dataclasses import dataclass

from ostler.pool.core.reserve import key_cap, processes_wanted, target
from ostler.pool.core.state import KeyState, LeaseRecord, PoolState, SeatQueue, SlotRecord
from ostler.pool.core.values import Key, LeaseId, Owner, PoolCensus, RetireReason, SeatId, SeatState, SlotId, SlotState


@dataclass(frozen=True, slots=True)
class SlotView:
    slot: SlotId
    generation: int
    state: SlotState
    age: float
    in_state: float
    unused_for: float
    leased: int
    parked: int
    opening: int
    closing: int
    """Seats that were given up and still take up room until their agent has closed them."""
    served: int
    leaked: int
    capacity: int
    memory: int
    missed_probes: int
    retire: RetireReason | None
    shunned: bool


@dataclass(frozen=True, slots=True)
class SeatQueueView:
    tools: str
    waiting: int
    parked: int
    opening: int
    target: int
    floor: int
    arrivals_per_minute: float
    remembered_burst: float
    hinted: bool


@dataclass(frozen=True, slots=True)
class LeaseView:
    lease: LeaseId
    key: Key
    slot: SlotId
    seat: SeatId | None
    owner: Owner
    age: float


@dataclass(frozen=True, slots=True)
class KeyView:
    key: Key
    provider: str
    fingerprint: str
    paused: bool
    full: bool
    """True when the key's own process cap is reached, even if the pool has room."""
    processes_wanted: int
    waiting: int
    failures: int
    retry_in: float
    last_failure: str
    slots: tuple[SlotView, ...]
    lines: tuple[SeatQueueView, ...]


@dataclass(frozen=True, slots=True)
class Snapshot:
    census: PoolCensus
    closed: bool
    paused: bool
    keys: tuple[KeyView, ...]
    spares: tuple[SlotView, ...]
    leases: tuple[LeaseView, ...]


def census(books: PoolState) -> PoolCensus:
    states = [slot.state for slot in books.slots.values()]
    ready = states.count(SlotState.READY)
    return PoolCensus(
        processes=len(states),
        starting=books.starting,
        ready=ready,
        dying=len(states) - ready - books.starting,
        max_processes=books.limits.max_processes,
        leased=len(books.leases),
        parked=sum(slot.parked for slot in books.slots.values()),
        waiting=len(books.claims),
        memory=books.charged,
        memory_budget=books.limits.memory_budget,
        throttled=books.tokens_now < 1.0,
    )


def snapshot(books: PoolState) -> Snapshot:
    return Snapshot(
        census(books),
        books.closed,
        books.paused,
        tuple(_key_view(books, stable) for stable in books.stables.values()),
        tuple(_slot_view(books, slot) for slot in books.spares.values()),
        tuple(_lease_view(books, lease) for lease in books.leases.values()),
    )


def _key_view(books: PoolState, stable: KeyState) -> KeyView:
    breaker = books.breakers.get(stable.spec.group)
    return KeyView(
        key=stable.key,
        provider=stable.spec.provider,
        fingerprint=stable.spec.fingerprint,
        paused=stable.paused,
        full=len(stable.slots) >= key_cap(books, stable),
        processes_wanted=processes_wanted(books, stable),
        waiting=stable.waiting,
        failures=breaker.failures if breaker else 0,
        retry_in=max(0.0, breaker.claims_after - books.now) if breaker else 0.0,
        last_failure=breaker.last.text if breaker else "",
        slots=tuple(_slot_view(books, slot) for slot in stable.slots.values()),
        lines=tuple(_line_view(books, stable, line) for line in stable.queues.values()),
    )


def _slot_view(books: PoolState, slot: SlotRecord) -> SlotView:
    return SlotView(
        slot=slot.id,
        generation=slot.generation,
        state=slot.state,
        age=books.now - slot.born,
        in_state=books.now - slot.since,
        unused_for=books.now - slot.used_at,
        leased=len(slot.leases),
        parked=slot.parked,
        opening=slot.opening,
        closing=sum(seat.state is SeatState.CLOSING for seat in slot.seats.values()),
        served=slot.served,
        leaked=slot.leaked,
        capacity=slot.capacity,
        memory=slot.charge,
        missed_probes=slot.missed,
        retire=slot.retire,
        shunned=slot.shunned,
    )


def _line_view(books: PoolState, stable: KeyState, line: SeatQueue) -> SeatQueueView:
    return SeatQueueView(
        tools=line.tools,
        waiting=line.ring.count,
        parked=len(line.parked),
        opening=line.opening,
        target=target(books, stable, line),
        floor=line.floor,
        arrivals_per_minute=line.arrivals.rate(books.now) * 60.0,
        remembered_burst=line.arrivals.peak,
        hinted=books.now < line.hint_until,
    )


def _lease_view(books: PoolState, lease: LeaseRecord) -> LeaseView:
    seat = None if lease.seat is None else lease.seat.id
    return LeaseView(lease.id, lease.key, lease.slot.id, seat, lease.owner, books.now - lease.since)
