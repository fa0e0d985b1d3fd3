"""The pool as plain data: the census for a refusal, the snapshot for the operator's console."""

from dataclasses import dataclass

from ostler.pool.core.reserve import key_cap, processes_wanted, target
from ostler.pool.core.state import KeyState, PoolState, SeatQueue, SeatRecord, SlotRecord
from ostler.pool.core.values import (
    Key,
    LeaseId,
    Owner,
    PoolCensus,
    RetireReason,
    SeatId,
    SeatState,
    SeatTools,
    SlotId,
    SlotState,
)


@dataclass(frozen=True, slots=True)
class SlotView:
    slot: SlotId
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


@dataclass(frozen=True, slots=True)
class LeaseView:
    lease: LeaseId
    key: Key
    slot: SlotId
    seat: SeatId
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


def census(state: PoolState) -> PoolCensus:
    states = [slot.state for slot in state.slots.values()]
    ready = states.count(SlotState.READY)
    return PoolCensus(
        processes=len(states),
        starting=state.starting,
        ready=ready,
        dying=len(states) - ready - state.starting,
        max_processes=state.limits.max_processes,
        leased=len(state.leases),
        parked=sum(slot.parked for slot in state.slots.values()),
        waiting=len(state.claims),
        memory=state.charged,
        memory_budget=state.limits.memory_budget,
        throttled=state.tokens_now < 1.0,
    )


def snapshot(state: PoolState) -> Snapshot:
    return Snapshot(
        census(state),
        state.closed,
        state.paused,
        tuple(_key_view(state, key_state) for key_state in state.keys.values()),
        tuple(_slot_view(state, slot) for slot in state.spares.values()),
        tuple(_lease_view(state, *held) for held in state.leases.items()),
    )


def _key_view(state: PoolState, key_state: KeyState) -> KeyView:
    breaker = state.breakers.get(key_state.spec.group)
    return KeyView(
        key=key_state.key,
        provider=key_state.spec.provider,
        fingerprint=key_state.spec.fingerprint,
        paused=key_state.paused,
        full=len(key_state.slots) >= key_cap(state, key_state),
        processes_wanted=processes_wanted(state, key_state),
        waiting=key_state.waiting,
        failures=breaker.failures if breaker else 0,
        retry_in=max(0.0, breaker.claims_after - state.now) if breaker else 0.0,
        last_failure=breaker.last.text if breaker else "",
        slots=tuple(_slot_view(state, slot) for slot in key_state.slots.values()),
        lines=tuple(_queue_view(state, key_state, queue) for queue in key_state.queues.values()),
    )


def _slot_view(state: PoolState, slot: SlotRecord) -> SlotView:
    return SlotView(
        slot=slot.id,
        state=slot.state,
        age=state.now - slot.born,
        in_state=state.now - slot.since,
        unused_for=state.now - slot.used_at,
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


def _queue_view(state: PoolState, key_state: KeyState, queue: SeatQueue) -> SeatQueueView:
    return SeatQueueView(
        tools=tools_text(queue.tools),
        waiting=queue.claims.count,
        parked=len(queue.parked),
        opening=queue.opening,
        target=target(state, key_state, queue),
        floor=queue.floor,
        arrivals_per_minute=queue.arrivals.rate(state.now) * 60.0,
        remembered_burst=queue.arrivals.peak,
    )


def tools_text(tools: SeatTools) -> str:
    """The name of a tool set in a view; empty for seats without tools."""
    return "" if tools is None else str(tools)


def _lease_view(state: PoolState, lease: LeaseId, seat: SeatRecord) -> LeaseView:
    return LeaseView(lease, seat.key_state.key, seat.slot.id, seat.id, seat.owner, state.now - seat.since)
