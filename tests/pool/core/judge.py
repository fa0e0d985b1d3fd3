"""Every action judged at the moment it is said."""

from typing import Any

from ostler.pool.core.breaker import SOON
from tests.pool.core.levels import Levels
from tests.pool.core.mirror import (
    EPSILON,
    MirrorClaim,
    MirrorLease,
    MirrorSeat,
    MirrorSlot,
    line_of,
)
from tests.support.walks import require


class Judge(Levels):
    # judging actions

    def _on_StartSlot(self, action: Any) -> None:
        spec, limits = self.specs[action.key], self.limits
        require(action.slot not in self.slots and action.slot not in self.dead, "slot ids are new", action)
        require(not self.closed, "nothing starts after shutdown", action)
        require(not self._is_paused(action.key), "a paused key starts nothing", action)
        require(action.spare or action.key not in self.cooled, "nothing is kept warm for a cooled key", action)
        require(action.fingerprint == spec.fingerprint, "starts are made from the newest spec", action, spec)
        self._check_way(action)
        traits = spec.traits
        slot = MirrorSlot(
            key=action.key,
            fingerprint=action.fingerprint,
            provider=spec.provider,
            capacity=traits.seats_per_process,
            single_use=traits.sharing is self.lib.CoreSharing.NONE,
            group=traits.open_group or action.slot,
            parallel=traits.parallel_opens,
            can_close=traits.can_close,
            spare=action.spare,
            mute=self.rng.random() < 0.04,
            used_at=self.now,
        )
        self.slots[action.slot] = slot
        alive = self.slots.values()
        require(len(self.slots) <= limits.max_processes, "cap: reserved + live + dying", len(self.slots))
        if not action.spare:
            self._check_key_cap(action.key)
        starting = [one for one in alive if one.state == "starting"]
        require(len(starting) <= limits.max_starting, "bounded starts", len(starting))
        alike = sum(one.provider == spec.provider for one in starting)
        require(alike <= limits.max_starting_per_provider, "bounded starts per provider", alike)
        budget = limits.memory_budget
        require(budget is None or self.state.charged <= budget, "memory at admission", self.state.charged)
        self._take_token()
        self._check_backoff(action, spec)

    def _check_way(self, action: Any) -> None:
        """What nobody of the key waits for is not started beside a first answer, unless it gave way long enough."""
        if action.spare or all(claim.key != action.key for claim in self.claims.values()):
            since = self.busy_since
            enough = since is None or self.now - since >= self.limits.give_way - EPSILON
            require(enough or not self._is_busy(), "a start ahead gives way to a first answer", action, since)

    def _check_key_cap(self, key: Any) -> None:
        cap = self.specs[key].max_processes or self.limits.max_processes_per_key
        count = sum(one.key == key and not one.spare for one in self.slots.values())
        require(count <= cap, "cap per key: reserved + live + dying", key, count, cap)

    def _earn(self) -> None:
        limits = self.limits
        earned = (self.now - self.tokens_at) * limits.starts_per_second
        self.tokens, self.tokens_at = min(float(limits.start_burst), self.tokens + earned), self.now

    def _take_token(self) -> None:
        self._earn()
        require(self.tokens >= 1.0 - EPSILON, "start rate", self.tokens)
        self.tokens -= 1.0

    def _check_backoff(self, action: Any, spec: Any) -> None:
        count, failed_at = self.fails.get((spec.provider, spec.fingerprint), (0, 0.0))
        if count >= 2:
            limits = self.limits
            pause = limits.breaker_cooldown if count >= limits.breaker_after else limits.backoff_base
            require(self.now >= failed_at + 0.75 * pause - EPSILON, "backoff", count, self.now - failed_at)
            trying = [
                one
                for one in self.slots.values()
                if one.state == "starting" and (one.provider, one.fingerprint) == (spec.provider, spec.fingerprint)
            ]
            require(len(trying) == 1, "one trial at a time", count, len(trying))
        self._check_shortage(action)

    def _check_shortage(self, action: Any) -> None:
        """What was short a moment ago is not asked for again at once, whatever else lives."""
        count, at = self.shorts.get(self._group(action.key), (0, 0.0))
        if count:
            pause = self.limits.backoff_base * 2.0 ** (count - 1)
            waited_for = not action.spare and any(claim.key == action.key for claim in self.claims.values())
            pause = min(pause, SOON) if waited_for else 2.0 * pause
            enough = at + 0.75 * min(pause, self.limits.backoff_cap)
            require(self.now >= enough - EPSILON, "a pause after a shortage", waited_for, self.now - at)

    def _on_AdoptSlot(self, action: Any) -> None:
        slot = self.slots[action.slot]
        spec = self.specs[action.key]
        untouched = slot.key == spec.reserve and not slot.used
        require(slot.spare or untouched, "only what nobody has used is adopted", action)
        require(slot.state in {"starting", "ready"} and slot.draining_since is None, "only the living", action)
        require((slot.provider, slot.fingerprint) == (spec.provider, spec.fingerprint), "a spare fits", action)
        slot.key, slot.spare, slot.adopted_step, slot.used_at = action.key, False, self.step, self.now
        slot.capacity, slot.single_use = (
            spec.traits.seats_per_process,
            spec.traits.sharing is self.lib.CoreSharing.NONE,
        )
        slot.group, slot.can_close = spec.traits.open_group or action.slot, spec.traits.can_close
        self._check_key_cap(action.key)

    def _on_StopSlot(self, action: Any) -> None:
        require(action.slot in self.slots, "no action on a process that is GONE", action)
        slot = self.slots[action.slot]
        require(not slot.leases, "no process is stopped under a lease", action, slot.leases)
        if slot.state == "stopping":
            require(action.hard, "a stop is repeated hard", action)
            slot.mute = slot.mute and self.rng.random() < 0.3
            return
        causes = self.lib.RetireReason
        if action.cause in {causes.IDLE, causes.EVICTED, causes.MEMORY_BUDGET, causes.SURPLUS}:
            require(slot.cancelled_step != self.step, "a promised process is not idle", action)
        if action.cause is causes.IDLE:
            self._check_idle(action, slot)
        if action.cause is self.lib.RetireReason.EVICTED and not slot.spare and not self._is_paused(slot.key):
            waiting = any(claim.key == slot.key for claim in self.claims.values())
            require(slot.served or not waiting, "what is promised to a waiter is not idle", action)
        if slot.state == "starting":
            allowed = {causes.START_FAILED, causes.FINGERPRINT, causes.OPERATOR, causes.SHUTDOWN}
            require(action.cause in allowed, "nothing retires a process that starts", action)
            if action.cause is causes.START_FAILED and isinstance(self.event, self.events.Tick):
                self._failed(slot)
        for number in list(slot.seats):
            self._drop_seat(number)
        if slot.state == "gone":
            del self.slots[action.slot]
            return
        slot.state = "stopping"
        slot.mute = self.rng.random() < 0.05

    def _check_idle(self, action: Any, slot: MirrorSlot) -> None:
        require(slot.state == "ready", "idle is never STARTING", action)
        unused = self.now - slot.used_at
        require(unused >= self.limits.idle_after - EPSILON, "idle counts from the last use", action, unused)
        waiting = any(claim.key == slot.key for claim in self.claims.values())
        require(not waiting, "no idle stop beside a waiter", action)

    def _on_OpenSeat(self, action: Any) -> None:
        require(action.slot in self.slots, "no action on a process that is GONE", action)
        slot = self.slots[action.slot]
        ready = slot.state == "ready" and slot.draining_since is None
        require(ready and not slot.spare, "seats open on READY processes", action, slot.state)
        require(slot.key == action.key, "a seat's key is its process's key", action)
        require(not self._is_paused(action.key), "a paused key opens nothing", action)
        require(action.key not in self.cooled, "nothing is opened ahead for a cooled key", action)
        require(slot.fingerprint == self.specs[action.key].fingerprint, "nothing new on an old generation", action)
        require(len(slot.seats) < slot.capacity, "seats per process", action, len(slot.seats))
        require(not (slot.single_use and slot.opened), "an unshared process has one seat in its life", action)
        line = line_of(action.tools, action.resume)
        waiting = sum(map(len, self.queues.get((action.key, line), {}).values()))
        coming = sum(
            seat.state == "opening" and seat.tools == line and self.slots[seat.slot].key == action.key
            for seat in self.seats.values()
        )
        ahead = waiting <= coming
        require(action.resume is None or not ahead, "what is resumed is opened for a claim that waits", action)
        require(not (ahead and self._is_unheard(slot)), "an open ahead gives way to a first answer", action)
        slot.opened += 1
        seat = MirrorSeat(action.slot, line, self.now, mute=self.rng.random() < 0.03)
        self.seats[action.seat] = slot.seats[action.seat] = seat
        group = self._asked(slot.group)
        require(group <= slot.parallel, "parallel opens per group", action, group)

    def _on_CloseSeat(self, action: Any) -> None:
        seat = self.seats.get(action.seat)
        require(seat is not None and seat.slot == action.slot, "only known seats are closed", action)
        assert seat is not None
        require(seat.state != "closing", "a seat is closed once", action)
        leased = any(lease.seat == action.seat for lease in self.leases.values())
        require(not leased, "a leased seat is not closed", action)
        if seat.state == "opening" and self.now - seat.since < self.limits.open_timeout:
            self.slots[seat.slot].cancelled_step = self.step
        seat.state, seat.since = "closing", self.now
        if not self.slots[seat.slot].can_close:
            self._drop_seat(action.seat)

    def _on_Grant(self, action: Any) -> None:
        claim = self.claims.get(action.claim)
        require(claim is not None, "one outcome per claim", action)
        assert claim is not None
        require(not self._is_paused(claim.key), "a paused key grants nothing", action)
        slot = self.slots[action.slot]
        require(slot.state == "ready" and slot.draining_since is None, "only READY is granted", action, slot.state)
        require(slot.key == claim.key == action.key and not slot.spare, "a lease's key is its slot's key", action)
        require(slot.fingerprint == self.specs[claim.key].fingerprint, "nothing new on an old generation", action)
        require(abs(action.waited - (self.now - claim.since)) < EPSILON, "waited", action)
        warmth = self.lib.Warmth
        expected = warmth.WARM
        if slot.ready_step > claim.step:
            expected = warmth.COLD
        elif slot.adopted_step >= claim.step:
            expected = warmth.SPARE
        seat = self.seats[action.seat]
        require(seat.state == "parked", "a seat is leased once, and only when open", action, seat.state)
        require(
            seat.tools == claim.tools and seat.slot == action.slot,
            "the seat has the claim's tools and resumes what it asked for",
            action,
        )
        if seat.parked_step < claim.step:
            expected = warmth.PARKED
        seat.state = "leased"
        require(action.warmth is expected, "warmth is honest", action, expected)
        require(
            (action.warmth is warmth.PARKED) == (action.miss is self.lib.MissReason.NONE),
            "a miss has a reason",
            action,
        )
        self._check_turn(action.claim, claim)
        self._forget_claim(action.claim)
        self.outcomes += 1
        require(action.lease not in self.leases, "lease ids are new", action)
        self.leases[action.lease] = MirrorLease(action.claim, claim.key, action.slot, action.seat)
        slot.leases.add(action.lease)
        slot.served += 1
        slot.used = True
        if not slot.heard and slot.unheard_since is None:
            slot.unheard_since = self.now
        slot.used_at = self.now

    def _check_turn(self, number: int, claim: MirrorClaim) -> None:
        queue = self.queues[claim.key, claim.tools]
        require(next(iter(queue[claim.owner])) == number, "first come first served within an owner", number)
        mark = self.marks[claim.key, claim.tools, claim.owner]
        for owner in queue:
            earlier = self.marks[claim.key, claim.tools, owner] < mark
            require(not earlier, "round-robin by owner", number, claim.owner, owner)
        self.marks[claim.key, claim.tools, claim.owner] = self._next_mark()

    def _on_Refuse(self, action: Any) -> None:
        require(action.claim in self.claims, "one outcome per claim", action)
        kind, claim = action.kind, self.claims[action.claim]
        refusal = self.lib.RefusalKind
        require((kind is refusal.CLOSED) == self.closed, "closed is said of a closed pool only", action)
        if kind is refusal.PAUSED:
            require(self._is_paused(claim.key) and self.now >= claim.deadline, "paused at the deadline", action)
        if kind is refusal.DEADLOCK:
            require(claim.parent is not None, "only a nested claim can deadlock", action)
        if kind in {refusal.START_FAILED, refusal.BREAKER_OPEN, refusal.OPEN_FAILED}:
            require(action.text, "a failure's text is passed on", action)
        if kind is refusal.BREAKER_OPEN:
            self._check_bar(action, claim)
        require(action.census.processes <= max(self.limits.max_processes, self.crowd), "census", action)
        self._forget_claim(action.claim)
        self.outcomes += 1

    def _check_bar(self, action: Any, claim: MirrorClaim) -> None:
        require(self._group(claim.key) in self.state.breakers, "only a failure of its own kind bars a claim", action)
        hopes = [
            number
            for number, slot in self.slots.items()
            if slot.key == claim.key
            and not slot.spare
            and (slot.state == "starting" or (slot.state == "ready" and not self.state.slots[number].shunned))
        ]
        require(not hopes, "nobody is barred beside a process that may yet serve", action, hopes)
        left = self.state.breakers[self._group(claim.key)].claims_after - self.now
        require(abs(action.retry_after - left) < EPSILON, "who is barred hears for how long", action, left)

    def _on_MoveRequested(self, action: Any) -> None:
        require(action.lease in self.leases, "only living leases are moved", action)
        slot = self.slots[action.slot]
        require(self.leases[action.lease].slot == action.slot, "a lease moves from its own process", action)
        causes = self.lib.RetireReason
        idle = {causes.IDLE, causes.EVICTED, causes.MEMORY_BUDGET, causes.SURPLUS}
        require(action.cause not in idle, "leased is never idle", action)
        if action.cause is causes.TOOLS_LOST:
            broken = self.event.seat if isinstance(self.event, self.events.SeatBroken) else None
            require(self.leases[action.lease].seat == broken, "the holder of a broken seat moves, nobody else", action)
            self.told_broken = broken
        elif slot.draining_since is None:
            slot.draining_since = self.now

    def _on_SeatsLost(self, action: Any) -> None:
        slot, causes, events = self.slots[action.slot], self.lib.RetireReason, self.events
        require(set(action.leases) == slot.leases, "all leases of a process are lost, each once", action)
        if action.cause is causes.DRAIN_DEADLINE:
            since = slot.draining_since
            due = since is not None and self.now - since >= self.limits.drain_timeout - EPSILON
            require(due, "a drain is cut by its deadline only", action)
        elif action.cause is causes.DIED:
            require(isinstance(self.event, (events.SlotDied, events.SlotGone)), "death is a fact", action)
        elif action.cause is causes.OPERATOR:
            require(isinstance(self.event, events.Kill), "leases are killed by order only", action)
        else:
            require(action.cause is causes.SHUTDOWN, "leased is never touched", action)
        for lease in action.leases:
            require(lease not in self.state.leases, "what is lost has left the state", action, lease)
            self._end_lease(lease)

    def _on_Probe(self, action: Any) -> None:
        require(self.slots[action.slot].state == "ready", "only READY is probed", action)

    def _on_WakeAt(self, action: Any) -> None:
        require(action.time > self.now, "waking lies ahead", action)
        require(action.time < self.wake or isinstance(self.event, self.events.Tick), "waking moves closer", action)
        self.wake = action.time

    def _on_ForgetKey(self, action: Any) -> None:
        self.cooled.discard(action.key)
        used = any(slot.key == action.key and not slot.spare for slot in self.slots.values())
        asked = any(claim.key == action.key for claim in self.claims.values())
        require(not used and not asked, "only unused keys are forgotten", action)
        for said in [said for said in self.ceilings if said[0] == action.key]:
            del self.ceilings[said]  # with the key: who asks for it again is told again

    def _on_Notable(self, action: Any) -> None:
        counted = self.lib.Counted
        if action.what is counted.CEILING_TOO_LOW:
            self.ceilings[action.key, self.specs[action.key].fingerprint] += 1
            count = self.ceilings[action.key, self.specs[action.key].fingerprint]
            require(count <= 1, "a wrong ceiling is said once", action)
