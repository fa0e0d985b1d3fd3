"""What must hold after every step, whatever the event was, and the recount of the state."""

from operator import attrgetter
from typing import Any

from tests.pool.core.mirror import (
    EPSILON,
    Mirror,
    MirrorSlot,
)
from tests.pool.core.picture import describe
from tests.support.walks import BrokenInvariantError, require

DEADLINE = attrgetter("deadline")


class Levels(Mirror):
    # the level questions

    def _level(self) -> None:
        if self.closed:
            return
        if type(self.event) is self.events.Tick:
            self._check_overdue()
        self._note_busy()
        if not self.claims:
            return
        state, limits = self.state, self.limits
        first = min(map(DEADLINE, self.claims.values()))
        require(self.wake <= first + 1.0, "a deadline wakes", self.wake)
        short: set[Any] = set()
        serving = self._serving()
        paused, everything = self.paused, None in self.paused
        for (key, tools), owners in self.queues.items():
            if not owners or everything or key in paused:
                continue
            slots = serving.get(key, ())
            self._check_line(key, tools, owners, slots)
            short.add(key)
        for key in short - {slot.key for slot in self.slots.values() if not slot.spare}:
            self._check_starved(key, limits)
        if state.nested:
            self._check_deadlock()

    def _serving(self) -> dict[Any, list[tuple[int, MirrorSlot]]]:
        """The processes of each key that could take somebody, by number."""
        serving: dict[Any, list[tuple[int, MirrorSlot]]] = {}
        for number, slot in self.slots.items():
            if slot.state == "ready" and slot.draining_since is None and not slot.spare:
                serving.setdefault(slot.key, []).append((number, slot))
        return serving

    def _check_line(self, key: Any, tools: str, owners: Any, slots: Any) -> None:
        opening = 0
        for _, slot in slots:
            for seat in slot.seats.values():
                if seat.tools == tools:
                    require(seat.state != "parked", "no waiter beside a parked seat", key, tools)
                    opening += seat.state == "opening"
        if sum(map(len, owners.values())) <= opening:
            return
        for number, slot in slots:
            room = len(slot.seats) < slot.capacity and not (slot.single_use and slot.opened)
            if not room or self.state.slots[number].shunned:
                continue
            group = self._asked(slot.group)
            require(group >= slot.parallel, "no waiter beside a free seat", key, tools, number)

    def _asked(self, group: Any) -> int:
        """Opens of a group that an agent is at."""
        return sum(
            seat.state == "opening" and seat.asked and self.slots[seat.slot].group == group
            for seat in self.seats.values()
        )

    def _check_starved(self, key: Any, limits: Any) -> None:
        """A key with waiters and no process at all must get one, unless something that is measurable forbids
        it.
        """
        if self._is_barred(key):
            return
        starting = [slot for slot in self.slots.values() if slot.state == "starting"]
        provider = self.specs[key].provider
        alike = sum(slot.provider == provider for slot in starting)
        if len(starting) >= limits.max_starting or alike >= limits.max_starting_per_provider:
            return
        earned = (self.now - 0.05 - self.tokens_at) * limits.starts_per_second
        if min(float(limits.start_burst), self.tokens + earned) < 1.0 - EPSILON:
            return
        dying = any(slot.state == "stopping" for slot in self.slots.values())
        idle = [
            number
            for number, slot in self.slots.items()
            if slot.state == "ready"
            and not slot.leases
            and not any(seat.state == "opening" for seat in slot.seats.values())
            and (slot.spare or self._is_paused(slot.key) or not self.state.keys[slot.key].waiting)
        ]
        expected = self.state.keys[key].start_bytes or 100
        budget = limits.memory_budget
        if len(self.slots) >= limits.max_processes or (budget is not None and self.state.charged + expected > budget):
            require(dying or not idle, "an idle process makes way for a waiter", key, idle)
            return
        raise BrokenInvariantError(
            f"a waiter's process is not started though nothing forbids it: {key} {describe(self.state)}"
        )

    def _is_barred(self, key: Any) -> bool:
        """Whether starts of its kind failed, and none may be tried now: it is too early, or one is being tried."""
        breaker = self.state.breakers.get(self._group(key))
        if breaker is None:
            return False
        trying = any(
            slot.state == "starting" and self._slot_group(slot) == self._group(key) for slot in self.slots.values()
        )
        return trying or breaker.claims_after >= self.now

    def _check_deadlock(self) -> None:
        if any(slot.state in {"starting", "stopping"} for slot in self.slots.values()):
            return
        if any(seat.state in {"opening", "closing"} for seat in self.seats.values()):
            return
        parents = {claim.parent for claim in self.claims.values() if claim.parent is not None}
        full = len(self.slots) >= self.limits.max_processes
        if full and self.leases and parents >= set(self.leases):
            nested = [claim for claim in self.claims.values() if claim.parent is not None]
            stuck = [
                one
                for one in nested
                if not self._is_paused(one.key) and self._group(one.key) not in self.state.breakers
            ]
            require(not stuck, "no self-deadlock", describe(self.state), stuck)

    def _check_overdue(self) -> None:
        limits, now = self.limits, self.now
        self._check_crowd()
        for number, claim in self.claims.items():
            require(claim.deadline > now, "a deadline refuses", number)
        for number, slot in self.slots.items():
            if slot.state == "ready" and slot.draining_since is not None:
                require(now - slot.draining_since < limits.drain_timeout, "every drain ends", number)
            core = self.state.slots[number]
            if slot.state == "starting":
                require(now - core.since < limits.start_timeout, "every start ends", number)
            if slot.state == "stopping":
                require(now - core.since < limits.stop_timeout, "a stop that is not answered is repeated", number)
        for number, seat in self.seats.items():
            if seat.state == "opening":
                require(now - seat.since < limits.open_timeout, "every open ends", number)

        late = [slot for slot, since in self.state.first_answer_pending.items() if now - since >= limits.give_way]
        require(not late, "nobody gives way for ever", late)

    def _check_crowd(self) -> None:
        """Over a cap that was lowered, no process that nobody has outlives two looks."""
        over = sum(slot.state != "stopping" for slot in self.slots.values()) > self.limits.max_processes
        waited_for = {claim.key for claim in self.claims.values()}
        free = {
            number
            for number, slot in self.slots.items()
            if slot.state == "ready"
            and not slot.leases
            and not any(seat.state == "opening" for seat in slot.seats.values())
            and (slot.spare or slot.key not in waited_for)
        }
        spared = free if over else set()
        require(not spared & self.spared, "over the cap, what nobody has ends", spared & self.spared)
        self.spared = spared

    # recounting the state

    def _recount(self) -> None:
        state, lib = self.state, self.lib
        same = state.slots.keys() == self.slots.keys() and state.leases.keys() == self.leases.keys()
        require(same, "state and mirror agree", describe(self.state))
        require(state.claims.keys() == self.claims.keys(), "claims agree")
        require(state.seats.keys() == self.seats.keys(), "seats agree", set(state.seats) ^ set(self.seats))
        unheard = {number for number, slot in self.slots.items() if slot.unheard_since is not None}
        require(
            state.first_answer_pending.keys() <= unheard,
            "a first answer is waited for by somebody",
            state.first_answer_pending,
            unheard,
        )
        require({seat.claim for seat in state.leases.values()} == state.granted.keys(), "grants agree")
        require(
            {seat.lease for seat in state.seats.values()} - {None} == state.leases.keys(), "seats know their leases"
        )
        require(sum(slot.charge for slot in state.slots.values()) == state.charged, "memory adds up")
        asked = sum(seat.asked for seat in state.opening.values())
        require(sum(state.open_groups.values()) == asked, "open groups add up")
        states = [seat.state for seat in state.seats.values()]
        require(states.count(lib.SeatState.OPENING) == len(state.opening), "opening adds up")
        require(states.count(lib.SeatState.CLOSING) == len(state.closing), "closing adds up")
        parked = sum(len(queue.parked) for key_state in state.keys.values() for queue in key_state.queues.values())
        require(states.count(lib.SeatState.PARKED) == parked, "parked adds up")
        for number, slot in state.slots.items():
            mine = [seat.state for seat in slot.seats.values()]
            require(mine.count(lib.SeatState.OPENING) == slot.opening, "opening per slot", number)
            require(mine.count(lib.SeatState.PARKED) == slot.parked, "parked per slot", number)
            held = {lease for lease, one in state.leases.items() if one.slot is slot}
            require(held == slot.leases.keys(), "leases per slot", number)
            for seat in slot.leases.values():
                require(seat.key_state is slot.key_state, "a lease's key", number)
        for key_state in state.keys.values():
            for queue in key_state.queues.values():
                opening = sum(seat.queue is queue for seat in state.opening.values())
                require(opening == queue.opening, "opening per seat queue", key_state.key, queue.tools)
        owners = {claim.owner for claim in self.claims.values()}
        require(state.turns.last.keys() == owners == state.turns.waiting.keys(), "turns are of waiters only")
        require(set(state.nested) <= set(state.claims), "nested claims wait")
        require(len(state.breakers) <= len(state.keys) + 8, "breakers do not pile up", len(state.breakers))
        self.core.snapshot()
