"""A random walk over the whole event alphabet of the pool core, with a world that answers as badly as the
real one.

Rules: the walk keeps its own mirror, fed by actions only, and judges every action against it; after every
step it asks the level questions (is a waiter beside a usable seat?), and every so often it recounts the
books. `lib` is the package under test, so that a mutated copy can be walked as well. All randomness is here,
from one seed.
"""

import random
from collections import defaultdict, deque
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

TOOLS = ("", "t1", "t2")
OWNERS = ("ann", "bob", "cho", "dan")
EPSILON = 1e-6


class BrokenInvariantError(AssertionError):
    """An invariant does not hold."""


def require(holds: object, what: str, *facts: object) -> None:
    if not holds:
        raise BrokenInvariantError(f"{what}: {facts}")


@dataclass(slots=True, eq=False)
class MirrorSlot:
    key: Any
    fingerprint: str
    provider: str
    capacity: int
    single_use: bool
    group: Any
    parallel: int
    can_close: bool
    generation: int
    spare: bool
    mute: bool
    used_at: float
    state: str = "starting"
    ready_at: float = 0.0
    ready_step: int = -1
    adopted_step: int = -1
    draining_since: float | None = None
    opened: int = 0
    served: int = 0
    cancelled_step: int = -1
    seats: dict[int, "MirrorSeat"] = field(default_factory=dict)
    leases: set[int] = field(default_factory=set)


@dataclass(slots=True, eq=False)
class MirrorSeat:
    slot: int
    tools: str
    since: float
    mute: bool
    state: str = "opening"
    parked_step: int = -1


@dataclass(slots=True, eq=False)
class MirrorLease:
    generation: int
    claim: int
    key: Any
    slot: int
    seat: int | None


@dataclass(slots=True, eq=False)
class MirrorClaim:
    key: Any
    tools: str | None
    owner: str
    deadline: float
    parent: int | None
    step: int
    since: float = 0.0


class Walk:
    def __init__(self, lib: ModuleType, seed: int) -> None:
        self.lib, self.events, self.seed = lib, lib.events, seed
        self.rng = random.Random(seed)
        self.now, self.step, self.outcomes, self.asked = 0.0, 0, 0, 0
        self.limits = self._limits()
        self.core = lib.PoolCore(self.limits)
        self.books = self.core.books
        self.specs: dict[Any, Any] = {}
        self.slots: dict[int, MirrorSlot] = {}
        self.seats: dict[int, MirrorSeat] = {}
        self.leases: dict[int, MirrorLease] = {}
        self.claims: dict[int, MirrorClaim] = {}
        self.lines: dict[tuple[Any, str | None], dict[str, dict[int, MirrorClaim]]] = {}
        self.marks: dict[tuple[Any, str | None, str], int] = {}
        self.paused: set[Any] = set()
        self.fails: dict[Any, tuple[int, float]] = {}
        self.tokens, self.tokens_at = float(self.limits.start_burst), 0.0
        self.wake = float("inf")
        self.closed = False
        self.event: Any = None
        self.last_answer: Any = None
        self.dead: deque[int] = deque([999_999_999], maxlen=200)
        self.marked = 0
        self.ceilings: dict[Any, int] = defaultdict(int)
        self._judges = {getattr(lib.actions, name): getattr(self, f"_on_{name}") for name in ACTIONS}
        self._moves = [move for name, weight in MOVES for move in [getattr(self, f"_{name}")] * weight]

    # the world's settings

    def _limits(self) -> Any:
        rng, lib = self.rng, self.lib
        return lib.Limits(
            max_processes=rng.choice((1, 2, 3, 4, 5)),
            max_processes_per_key=rng.choice((1, 2, 3)),
            max_starting=rng.choice((1, 2, 3)),
            max_starting_per_provider=rng.choice((1, 2)),
            starts_per_second=rng.choice((0.5, 2.0, 10.0)),
            start_burst=rng.choice((1, 3)),
            max_queue=rng.choice((6, 15)),
            start_timeout=20.0,
            open_timeout=12.0,
            slow_open_after=rng.choice((5.0, 20.0)),
            close_timeout=4.0,
            stop_timeout=3.0,
            drain_timeout=15.0,
            idle_after=12.0,
            forget_after=90.0,
            hint_seconds=20.0,
            max_age=rng.choice((60.0, 4000.0)),
            memory_budget=rng.choice((None, 350, 600)),
            memory_ceiling=rng.choice((None, 150)),
            memory_recycle_spacing=10.0,
            probe_every=rng.choice((None, 5.0)),
            breaker_after=3,
            backoff_base=0.5,
            backoff_cap=8.0,
            breaker_cooldown=6.0,
            reserve=lib.ReserveRule(most=3, rate_half_life=20.0, burst_half_life=200.0, keep_seconds=30.0),
        )

    def _spec(self, key: int) -> Any:
        rng, lib = self.rng, self.lib
        sharing = rng.choice((lib.Sharing.SESSIONS,) * 4 + (lib.Sharing.PER_CWD, lib.Sharing.NONE))
        roams = rng.random() < 0.4
        traits = lib.Traits(
            sharing=sharing,
            seats_per_process=rng.choice((1, 2, 4)) if sharing is lib.Sharing.SESSIONS else 1,
            recycle_after_seats=rng.choice((None, 10)),
            recycle_after_leaks=rng.choice((None, 3)),
            can_close=rng.random() < 0.7,
            open_group=rng.choice((None, "home")),
            parallel_opens=2,
            cwd_per_session=roams,
            parks=rng.random() < 0.8,
            replacement=rng.choice(tuple(lib.Replacement)),
            start_seconds=1.0,
            start_bytes=100,
            seat_bytes=5,
        )
        provider = "roaming" if roams else f"p{key % 2}"
        return lib.KeySpec(
            provider=provider,
            fingerprint="f0" if roams else f"f{key}.0",
            traits=traits,
            floor=rng.choice((0, 0, 1)),
            spares=rng.choice((0, 1)) if roams else 0,
            max_processes=rng.choice((None, None, 1, 2)),
        )

    # stepping

    def run(self, steps: int) -> int:
        """Walk, then shut down and see that nothing is left. Returns the number of events handled."""
        for key in range(self.rng.randint(2, 5)):
            self._register(key, self._spec(key))
        while self.step < steps:
            self.now += self.rng.random() * 0.3
            if (jump := self.rng.random()) < 0.01:
                self.now += 60.0 if jump < 0.001 else 4.0
            if self.wake <= self.now:
                self._send(self.events.Tick())
            self.rng.choice(self._moves)()
        self._shut_down()
        return self.step

    def _send(self, event: Any) -> list[Any]:
        self.step += 1
        self.event = event
        actions: list[Any] = self.core.handle(event, self.now)
        if type(event) is self.events.Tick:
            self.wake = float("inf")
            for number, seat in list(self.seats.items()):
                if seat.state == "closing" and self.now - seat.since >= self.limits.close_timeout:
                    self._drop_seat(number)
            self._prove_old()
            used = {self._group(key) for key in self.books.stables}
            self.fails = {group: fails for group, fails in self.fails.items() if group in used}
        for action in actions:
            self._judges[type(action)](action)
        self._level()
        if self.step % 64 == 0:
            self._recount()
        return actions

    def _send_stale(self, event: Any) -> None:
        for action in self._send(event):
            calm = isinstance(action, (self.lib.actions.Note, self.lib.actions.WakeAt))
            require(calm, "a stale event has no effect", event, action)

    def _pick(self, items: Any) -> Any:
        return self.rng.choice(items) if items else None

    # moves: those who use the pool

    def _claim(self) -> None:
        rng = self.rng
        key = rng.choice(tuple(self.specs))
        if not self.core.knows(key):
            self._register(key, self.specs[key])
        self.asked += 1
        tools = None if rng.random() < 0.08 else rng.choice(TOOLS)
        parent = self._pick(tuple(self.leases)) if rng.random() < 0.08 else None
        owner = rng.choice(OWNERS)
        claim = MirrorClaim(
            key, tools, owner, self.now + rng.random() * 25.0, parent, self.step + 1, self.now
        )
        self.claims[self.asked] = claim
        waiting = self.lines.setdefault((key, tools), {})
        if owner not in waiting:
            waiting[owner] = {}
            self.marks[key, tools, owner] = self._next_mark()
        waiting[owner][self.asked] = claim
        self._send(self.events.Claim(self.asked, key, tools, owner, claim.deadline, parent))
        require(len(self.claims) <= self.limits.max_queue, "the queue is bounded", len(self.claims))

    def _claim_unknown(self) -> None:
        self.asked += 1
        self.claims[self.asked] = MirrorClaim("nobody", "", "ann", self.now, None, self.step + 1)
        self.lines.setdefault(("nobody", ""), {}).setdefault("ann", {})[self.asked] = self.claims[self.asked]
        self.marks["nobody", "", "ann"] = 0
        self._send(self.events.Claim(self.asked, "nobody", "", "ann", self.now))
        require(self.asked not in self.claims, "a claim of an unknown key is refused at once")

    def _claim_again(self) -> None:
        if (number := self._pick(tuple(self.claims))) is not None:
            claim = self.claims[number]
            again = self.events.Claim(number, claim.key, claim.tools, claim.owner, self.now + 99.0)
            self._send_stale(again)

    def _abandon(self) -> None:
        number = self._pick(tuple(self.claims))
        if number is not None and self.rng.random() < 0.7:
            self._forget_claim(number)
            self.outcomes += 1
            self._send(self.events.ClaimAbandoned(number))
        elif (lease := self._pick(tuple(self.leases))) is not None:
            claim = self.leases[lease].claim
            self._end_lease(lease)
            self._send(self.events.ClaimAbandoned(claim))
            require(lease not in self.books.leases, "an abandoned grant is given back", lease)

    def _release(self) -> None:
        if (number := self._pick(tuple(self.leases))) is None:
            return
        lease = self.leases[number]
        if self.rng.random() < 0.05:
            self._send_stale(self.events.LeaseReleased(number, lease.generation + 1))
            require(number in self.books.leases, "a stale release ends nothing", number)
            return
        self._end_lease(number)
        self.last_answer = self.events.LeaseReleased(number, lease.generation)
        actions = self._send(self.last_answer)
        if lease.seat is not None:
            closed = [one.seat for one in actions if isinstance(one, self.lib.actions.CloseSeat)]
            require(lease.seat in closed, "a used seat is closed, never parked again", lease.seat)

    def _boundary(self) -> None:
        if (number := self._pick(tuple(self.leases))) is not None:
            slot = self.slots[self.leases[number].slot]
            slot.used_at = self.now
            asked = self._send(self.events.TurnBoundary(number))
            if slot.state == "ready" and slot.draining_since is not None:
                moved = [one for one in asked if isinstance(one, self.lib.actions.MoveRequested)]
                require(moved, "a session on a draining process is told to move", number)

    def _hint(self) -> None:
        if self.core.knows(key := self.rng.choice(tuple(self.specs))):
            self._send(self.events.Hint(key, self.rng.choice(TOOLS)))

    def _warm(self) -> None:
        if self.core.knows(key := self.rng.choice(tuple(self.specs))):
            self._send(self.events.Warm(key, self.rng.choice(TOOLS), self.rng.choice((0, 0, 0, 1, 2))))

    def _respec(self) -> None:
        key = self.rng.choice(tuple(self.specs))
        old = self.specs[key]
        fingerprint = old.fingerprint
        if self.rng.random() < 0.3:
            fingerprint = (
                "f1" if old.traits.cwd_per_session and fingerprint == "f0" else f"f{key}.{self.step}"
            )
        floor, cap = self.rng.choice((0, 0, 1)), self.rng.choice((None, 1, 2))
        spec = self.lib.KeySpec(old.provider, fingerprint, old.traits, floor, old.spares, cap)
        self._register(key, spec)

    def _register(self, key: Any, spec: Any) -> None:
        self.specs[key] = spec
        self._send(self.events.KeyRegistered(key, spec))

    # moves: the operator

    def _pause(self) -> None:
        key = self.rng.choice((None, *self.specs))
        if key is None or self.core.knows(key):
            self.paused.add(key)
            self._send(self.events.Pause(key))

    def _resume(self) -> None:
        if self.paused:
            key = self.rng.choice(tuple(self.paused))
            self.paused.discard(key)
            self._send(self.events.Resume(key))

    def _drain_key(self) -> None:
        if self.core.knows(key := self.rng.choice(tuple(self.specs))):
            old = [slot for slot in self.slots.values() if slot.key == key and not slot.spare]
            self._send(self.events.DrainKey(key))
            left = [slot for slot in old if slot.state == "ready" and slot.draining_since is None]
            require(not left, "a drained key's processes drain", key)

    def _drain_slot(self) -> None:
        if (number := self._pick(tuple(self.slots))) is not None:
            self._send(self.events.DrainSlot(number))

    def _recycle(self) -> None:
        if (number := self._ready()) is not None:
            self._send(self.events.Recycle(number))

    def _kill(self) -> None:
        if (number := self._pick(tuple(self.slots))) is not None:
            self._send(self.events.Kill(number))
            require(self.slots[number].state == "stopping", "a killed process is stopped", number)

    def _reconnect(self) -> None:
        if self.core.knows(key := self.rng.choice(tuple(self.specs))):
            self.fails.pop(self._group(key), None)
            self._send(self.events.Reconnect(key))

    def _tick(self) -> None:
        self._send(self.events.Tick())

    # moves: the world answers

    def _ready(self) -> int | None:
        ready: int | None = self._pick(
            [number for number, slot in self.slots.items() if slot.state == "ready"]
        )
        return ready

    def _start_answer(self) -> None:
        starting = [
            number for number, slot in self.slots.items() if slot.state == "starting" and not slot.mute
        ]
        if (number := self._pick(starting)) is None:
            return
        slot, luck, before = self.slots[number], self.rng.random(), list(self.claims.items())
        if luck < 0.8:
            slot.state, slot.ready_at, slot.ready_step, slot.used_at = (
                "ready",
                self.now,
                self.step + 1,
                self.now,
            )
            self.last_answer = self.events.SlotStarted(number, self.rng.random())
            self._send(self.last_answer)
            return
        self._failed(slot)
        if luck < 0.92:
            retryable = self.rng.random() < 0.7
            text = self.rng.choice(("exit 1", "exit 2"))
            self._send(self.events.SlotStartFailed(number, "initialize", text, self.rng.random(), retryable))
        elif luck < 0.96:
            self._send(self.events.SlotDied(number, "exit 3"))
        else:
            self._gone(number)
            return
        require(self.slots[number].state == "stopping", "a failed start leaves no slot", number)
        others = [one for one in self.slots.values() if one.key == slot.key and one.state != "stopping"]
        left = [claim for claim, one in before if one.key == slot.key and claim in self.claims]
        require(
            slot.spare or others or not left, "a failed start is the error of all who waited for it", left
        )

    def _reaped(self) -> None:
        stopping = [
            number for number, slot in self.slots.items() if slot.state == "stopping" and not slot.mute
        ]
        if (number := self._pick(stopping)) is not None:
            self._gone(number)

    def _gone(self, number: int) -> None:
        slot = self.slots[number]
        if slot.state == "stopping":
            del self.slots[number]
        else:
            slot.state = "gone"
        self.last_answer = self.events.SlotGone(number)
        self._send(self.last_answer)
        require(number not in self.slots, "a process that is gone unasked is mourned first", number)
        require(not slot.leases, "no lease outlives its process", number, slot.leases)
        require(number not in self.books.slots, "GONE is gone", number)
        self.dead.append(number)

    def _seat_answer(self) -> None:
        opening = [number for number, seat in self.seats.items() if seat.state == "opening" and not seat.mute]
        if (number := self._pick(opening)) is None:
            return
        seat = self.seats[number]
        if self.rng.random() < 0.93:
            seat.state, seat.parked_step = "parked", self.step + 1
            self.fails.pop(self._slot_group(self.slots[seat.slot]), None)
            self.last_answer = self.events.SeatOpened(number)
            self._send(self.last_answer)
        else:
            seat.state = "failed"
            self._send(self.events.SeatOpenFailed(number, "no such model"))
            gone = number not in self.seats or self.seats[number].state == "closing"
            require(gone, "a failed open is closed", number)

    def _close_answer(self) -> None:
        closing = [number for number, seat in self.seats.items() if seat.state == "closing" and not seat.mute]
        if (number := self._pick(closing)) is not None:
            self._drop_seat(number)
            self.last_answer = self.events.SeatClosed(number, self.rng.random() < 0.85)
            self._send(self.last_answer)

    def _seat_broken(self) -> None:
        parked = [number for number, seat in self.seats.items() if seat.state == "parked"]
        if (number := self._pick(parked)) is not None:
            self._send(self.events.SeatBroken(number))
            gone = number not in self.seats or self.seats[number].state == "closing"
            require(gone, "a broken seat is nobody's", number)

    def _death(self) -> None:
        if (number := self._ready()) is None:
            return
        slot = self.slots[number]
        if not self.books.slots[number].proven:
            self._failed(slot)
        if self.rng.random() < 0.3:
            self._gone(number)
            return
        self._send(self.events.SlotDied(number, "exit 139"))
        require(
            slot.state == "stopping" and not slot.leases, "a dead process loses its leases at once", number
        )

    def _memory(self) -> None:
        if (number := self._pick(tuple(self.slots))) is not None:
            self._send(self.events.MemorySampled(number, self.rng.randint(60, 240)))

    def _probe(self) -> None:
        if (number := self._ready()) is None:
            return
        if self.rng.random() < 0.6:
            self.fails.pop(self._slot_group(self.slots[number]), None)
            self._send(self.events.ProbeAnswered(number))
        else:
            self._send(self.events.ProbeMissed(number))

    def _echo(self) -> None:
        """The last answer again: a duplicate."""
        if self.last_answer is not None:
            self._send_stale(self.last_answer)

    def _junk(self) -> None:
        """An answer about something long gone."""
        events, rng = self.events, self.rng
        number = rng.choice(self.dead)
        self._send_stale(
            rng.choice(
                (
                    events.SlotStarted(number, 0.5),
                    events.SlotStartFailed(number, "start", "x", 0.5),
                    events.SlotDied(number, "x"),
                    events.SlotGone(number),
                    events.SeatOpened(number),
                    events.SeatOpenFailed(number, "x"),
                    events.SeatClosed(number, True),
                    events.SeatBroken(number),
                    events.MemorySampled(number, 100),
                    events.ProbeAnswered(number),
                    events.ProbeMissed(number),
                    events.LeaseReleased(number, number),
                    events.TurnBoundary(number),
                    events.ClaimAbandoned(-1),
                    events.Recycle(number),
                    events.Kill(number),
                    events.DrainSlot(number),
                    events.DrainKey("nobody"),
                    events.Hint("nobody", ""),
                    events.Warm("nobody", "", 1),
                    events.Pause("nobody"),
                    events.Reconnect("nobody"),
                )
            )
        )

    # judging actions

    def _on_StartSlot(self, action: Any) -> None:
        spec, limits = self.specs[action.key], self.limits
        require(action.slot not in self.slots and action.slot not in self.dead, "slot ids are new", action)
        require(not self.closed, "nothing starts after shutdown", action)
        require(not self._is_paused(action.key), "a paused key starts nothing", action)
        require(action.fingerprint == spec.fingerprint, "starts are made from the newest spec", action, spec)
        traits = spec.traits
        slot = MirrorSlot(
            key=action.key,
            fingerprint=action.fingerprint,
            provider=spec.provider,
            capacity=traits.seats_per_process,
            single_use=traits.sharing is self.lib.Sharing.NONE,
            group=traits.open_group or action.slot,
            parallel=traits.parallel_opens,
            can_close=traits.can_close,
            generation=action.generation,
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
        require(budget is None or self.books.charged <= budget, "memory at admission", self.books.charged)
        self._take_token()
        self._check_backoff(spec)

    def _check_key_cap(self, key: Any) -> None:
        cap = self.specs[key].max_processes or self.limits.max_processes_per_key
        count = sum(one.key == key and not one.spare for one in self.slots.values())
        require(count <= cap, "cap per key: reserved + live + dying", key, count, cap)

    def _take_token(self) -> None:
        limits = self.limits
        earned = (self.now - self.tokens_at) * limits.starts_per_second
        self.tokens, self.tokens_at = min(float(limits.start_burst), self.tokens + earned), self.now
        require(self.tokens >= 1.0 - EPSILON, "start rate", self.tokens)
        self.tokens -= 1.0

    def _check_backoff(self, spec: Any) -> None:
        count, failed_at = self.fails.get((spec.provider, spec.fingerprint), (0, 0.0))
        if count >= 2:
            limits = self.limits
            pause = limits.breaker_cooldown if count >= limits.breaker_after else limits.backoff_base
            require(self.now >= failed_at + 0.75 * pause - EPSILON, "backoff", count, self.now - failed_at)
            trying = [
                one
                for one in self.slots.values()
                if one.state == "starting"
                and (one.provider, one.fingerprint) == (spec.provider, spec.fingerprint)
            ]
            require(len(trying) == 1, "one trial at a time", count, len(trying))

    def _on_AdoptSlot(self, action: Any) -> None:
        slot = self.slots[action.slot]
        spec = self.specs[action.key]
        require(slot.spare and slot.state in {"starting", "ready"}, "only a living spare is adopted", action)
        require(
            (slot.provider, slot.fingerprint) == (spec.provider, spec.fingerprint), "a spare fits", action
        )
        slot.key, slot.spare, slot.adopted_step, slot.used_at = action.key, False, self.step, self.now
        slot.capacity, slot.single_use = (
            spec.traits.seats_per_process,
            spec.traits.sharing is self.lib.Sharing.NONE,
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
        causes = self.lib.Cause
        if action.cause in {causes.IDLE, causes.EVICTED, causes.MEMORY_BUDGET, causes.SURPLUS}:
            require(slot.cancelled_step != self.step, "a promised process is not idle", action)
        if action.cause is causes.IDLE:
            self._check_idle(action, slot)
        if action.cause is self.lib.Cause.EVICTED and not slot.spare and not self._is_paused(slot.key):
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
        require(
            slot.fingerprint == self.specs[action.key].fingerprint, "nothing new on an old generation", action
        )
        require(len(slot.seats) < slot.capacity, "seats per process", action, len(slot.seats))
        require(not (slot.single_use and slot.opened), "an unshared process has one seat in its life", action)
        slot.opened += 1
        seat = MirrorSeat(action.slot, action.tools, self.now, mute=self.rng.random() < 0.03)
        self.seats[action.seat] = slot.seats[action.seat] = seat
        group = sum(
            seat.state == "opening" and self.slots[seat.slot].group == slot.group
            for seat in self.seats.values()
        )
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
        require(
            slot.state == "ready" and slot.draining_since is None, "only READY is granted", action, slot.state
        )
        require(
            slot.key == claim.key == action.key and not slot.spare, "a lease's key is its slot's key", action
        )
        require(
            slot.fingerprint == self.specs[claim.key].fingerprint, "nothing new on an old generation", action
        )
        require(action.generation == slot.generation, "the lease knows its generation", action)
        require(abs(action.waited - (self.now - claim.since)) < EPSILON, "waited", action)
        require((action.seat is None) == (claim.tools is None), "transport or seat", action)
        warmth = self.lib.Warmth
        expected = warmth.WARM
        if slot.ready_step > claim.step:
            expected = warmth.COLD
        elif slot.adopted_step >= claim.step:
            expected = warmth.SPARE
        if action.seat is not None:
            seat = self.seats[action.seat]
            require(seat.state == "parked", "a seat is leased once, and only when open", action, seat.state)
            require(
                seat.tools == claim.tools and seat.slot == action.slot,
                "the seat has the claim's tools",
                action,
            )
            if seat.parked_step < claim.step:
                expected = warmth.PARKED
            seat.state = "leased"
        require(action.warmth is expected, "warmth is honest", action, expected)
        require(
            (action.warmth is warmth.PARKED) == (action.miss is self.lib.Miss.NONE),
            "a miss has a reason",
            action,
        )
        self._check_turn(action.claim, claim)
        self._forget_claim(action.claim)
        self.outcomes += 1
        require(action.lease not in self.leases, "lease ids are new", action)
        self.leases[action.lease] = MirrorLease(
            action.generation, action.claim, claim.key, action.slot, action.seat
        )
        slot.leases.add(action.lease)
        slot.served += action.seat is not None
        slot.used_at = self.now

    def _check_turn(self, number: int, claim: MirrorClaim) -> None:
        line = self.lines[claim.key, claim.tools]
        require(next(iter(line[claim.owner])) == number, "first come first served within an owner", number)
        mark = self.marks[claim.key, claim.tools, claim.owner]
        for owner in line:
            earlier = self.marks[claim.key, claim.tools, owner] < mark
            require(not earlier, "round-robin by owner", number, claim.owner, owner)
        self.marks[claim.key, claim.tools, claim.owner] = self._next_mark()

    def _on_Refuse(self, action: Any) -> None:
        require(action.claim in self.claims, "one outcome per claim", action)
        kind, claim = action.kind, self.claims[action.claim]
        refusal = self.lib.Refusal
        require((kind is refusal.CLOSED) == self.closed, "closed is said of a closed pool only", action)
        if kind is refusal.PAUSED:
            require(
                self._is_paused(claim.key) and self.now >= claim.deadline, "paused at the deadline", action
            )
        if kind is refusal.DEADLOCK:
            require(claim.parent is not None, "only a nested claim can deadlock", action)
        if kind in {refusal.START_FAILED, refusal.BREAKER_OPEN, refusal.OPEN_FAILED}:
            require(action.text, "a failure's text is passed on", action)
        require(action.census.processes <= self.limits.max_processes, "census", action)
        self._forget_claim(action.claim)
        self.outcomes += 1

    def _on_MoveRequested(self, action: Any) -> None:
        require(action.lease in self.leases, "only living leases are moved", action)
        slot = self.slots[action.slot]
        require(self.leases[action.lease].slot == action.slot, "a lease moves from its own process", action)
        causes = self.lib.Cause
        idle = {causes.IDLE, causes.EVICTED, causes.MEMORY_BUDGET, causes.SURPLUS}
        require(action.cause not in idle, "leased is never idle", action)
        if slot.draining_since is None:
            slot.draining_since = self.now

    def _on_SeatsLost(self, action: Any) -> None:
        slot, causes, events = self.slots[action.slot], self.lib.Cause, self.events
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
            self._end_lease(lease)

    def _on_Probe(self, action: Any) -> None:
        require(self.slots[action.slot].state == "ready", "only READY is probed", action)

    def _on_WakeAt(self, action: Any) -> None:
        require(action.time > self.now, "waking lies ahead", action)
        require(
            action.time < self.wake or isinstance(self.event, self.events.Tick), "waking moves closer", action
        )
        self.wake = action.time

    def _on_ForgetKey(self, action: Any) -> None:
        used = any(slot.key == action.key and not slot.spare for slot in self.slots.values())
        asked = any(claim.key == action.key for claim in self.claims.values())
        require(not used and not asked, "only unused keys are forgotten", action)
        for tools in (None, *TOOLS):
            self.lines.pop((action.key, tools), None)

    def _on_Note(self, action: Any) -> None:
        counted = self.lib.Counted
        if action.what is counted.CEILING_TOO_LOW:
            self.ceilings[action.key, self.specs[action.key].fingerprint] += 1
            count = self.ceilings[action.key, self.specs[action.key].fingerprint]
            require(count <= 1, "a wrong ceiling is said once", action)

    # the level questions

    def _level(self) -> None:
        if self.closed:
            return
        if type(self.event) is self.events.Tick:
            self._check_overdue()
        if not self.claims:
            return
        books, limits = self.books, self.limits
        require(
            self.wake <= min(claim.deadline for claim in self.claims.values()) + 1.0,
            "a deadline wakes",
            self.wake,
        )
        short: set[Any] = set()
        for (key, tools), owners in self.lines.items():
            if not owners or self._is_paused(key):
                continue
            slots = [
                (number, slot)
                for number, slot in self.slots.items()
                if slot.key == key
                and not slot.spare
                and slot.state == "ready"
                and slot.draining_since is None
            ]
            if tools is None:
                usable = [number for number, _ in slots if not books.slots[number].shunned]
                require(not usable, "no waiter beside a shared process", key)
            else:
                self._check_line(key, tools, owners, slots)
            short.add(key)
        for key in short:
            self._check_starved(key, limits)
        if books.nested:
            self._check_deadlock()

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
            if not room or self.books.slots[number].shunned:
                continue
            group = sum(
                seat.state == "opening" and self.slots[seat.slot].group == slot.group
                for seat in self.seats.values()
            )
            require(group >= slot.parallel, "no waiter beside a free seat", key, tools, number)

    def _check_starved(self, key: Any, limits: Any) -> None:
        """A key with waiters and no process at all must get one, unless something that is measurable forbids
        it.
        """
        mine = [slot for slot in self.slots.values() if slot.key == key and not slot.spare]
        if mine or self._group(key) in self.books.breakers:
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
            and (slot.spare or self._is_paused(slot.key) or not self.books.stables[slot.key].waiting)
        ]
        expected = self.books.stables[key].start_bytes or 100
        budget = limits.memory_budget
        if len(self.slots) >= limits.max_processes or (
            budget is not None and self.books.charged + expected > budget
        ):
            require(dying or not idle, "an idle process makes way for a waiter", key, idle)
            return
        raise BrokenInvariantError(
            f"a waiter's process is not started though nothing forbids it: {key} {self.core.describe()}"
        )

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
                if not self._is_paused(one.key) and self._group(one.key) not in self.books.breakers
            ]
            require(not stuck, "no self-deadlock", self.core.describe(), stuck)

    def _check_overdue(self) -> None:
        limits, now = self.limits, self.now
        for number, claim in self.claims.items():
            require(claim.deadline > now, "a deadline refuses", number)
        for number, slot in self.slots.items():
            if slot.state == "ready" and slot.draining_since is not None:
                require(now - slot.draining_since < limits.drain_timeout, "every drain ends", number)
            core = self.books.slots[number]
            if slot.state == "starting":
                require(now - core.since < limits.start_timeout, "every start ends", number)
            if slot.state == "stopping":
                require(
                    now - core.since < limits.stop_timeout, "a stop that is not answered is repeated", number
                )
        for number, seat in self.seats.items():
            if seat.state == "opening":
                require(now - seat.since < limits.open_timeout, "every open ends", number)

    # recounting the books

    def _recount(self) -> None:
        books, lib = self.books, self.lib
        same = books.slots.keys() == self.slots.keys() and books.leases.keys() == self.leases.keys()
        require(same, "books and mirror agree", self.core.describe())
        require(books.claims.keys() == self.claims.keys(), "claims agree")
        require(books.seats.keys() == self.seats.keys(), "seats agree", set(books.seats) ^ set(self.seats))
        require({lease.claim for lease in books.leases.values()} == books.granted.keys(), "grants agree")
        require(sum(slot.charge for slot in books.slots.values()) == books.charged, "memory adds up")
        require(sum(books.open_groups.values()) == len(books.opening), "open groups add up")
        states = [seat.state for seat in books.seats.values()]
        require(states.count(lib.SeatState.OPENING) == len(books.opening), "opening adds up")
        require(states.count(lib.SeatState.CLOSING) == len(books.closing), "closing adds up")
        parked = sum(len(line.parked) for stable in books.stables.values() for line in stable.lines.values())
        require(states.count(lib.SeatState.PARKED) == parked, "parked adds up")
        for number, slot in books.slots.items():
            mine = [seat.state for seat in slot.seats.values()]
            require(mine.count(lib.SeatState.OPENING) == slot.opening, "opening per slot", number)
            require(mine.count(lib.SeatState.PARKED) == slot.parked, "parked per slot", number)
            held = {lease for lease, one in books.leases.items() if one.slot is slot}
            require(held == slot.leases.keys(), "leases per slot", number)
            for lease in slot.leases.values():
                require(slot.stable is not None and lease.key == slot.stable.key, "a lease's key", number)
        for stable in books.stables.values():
            for line in stable.lines.values():
                opening = sum(seat.line is line for seat in books.opening.values())
                require(opening == line.opening, "opening per line", stable.key, line.tools)
        owners = {claim.owner for claim in self.claims.values()}
        require(books.turns.last.keys() == owners == books.turns.waiting.keys(), "turns are of waiters only")
        require(set(books.nested) <= set(books.claims), "nested claims wait")
        require(len(books.breakers) <= len(books.stables) + 8, "breakers do not pile up", len(books.breakers))
        self.core.snapshot()

    # mirror bookkeeping

    def _next_mark(self) -> int:
        """Owners stand in line in the order of their last grant, or of joining."""
        self.marked += 1
        return self.marked

    def _is_paused(self, key: Any) -> bool:
        return None in self.paused or key in self.paused

    def _group(self, key: Any) -> Any:
        spec = self.specs[key]
        return (spec.provider, spec.fingerprint)

    def _slot_group(self, slot: MirrorSlot) -> Any:
        return (slot.provider, slot.fingerprint)

    def _failed(self, slot: MirrorSlot) -> None:
        count, _ = self.fails.get(self._slot_group(slot), (0, 0.0))
        self.fails[self._slot_group(slot)] = (count + 1, self.now)

    def _prove_old(self) -> None:
        for slot in self.slots.values():
            if slot.state == "ready" and self.now - slot.ready_at > 10.0:
                self.fails.pop(self._slot_group(slot), None)

    def _forget_claim(self, number: int) -> None:
        claim = self.claims.pop(number)
        owners = self.lines[claim.key, claim.tools]
        del owners[claim.owner][number]
        if not owners[claim.owner]:
            del owners[claim.owner]

    def _end_lease(self, number: int) -> None:
        lease = self.leases.pop(number)
        slot = self.slots[lease.slot]
        slot.leases.discard(number)
        slot.used_at = self.now
        self.dead.append(number)

    def _drop_seat(self, number: int) -> None:
        seat = self.seats.pop(number)
        self.slots[seat.slot].seats.pop(number)
        self.dead.append(number)

    # the end

    def _shut_down(self) -> None:
        self.closed = True
        self._send(self.events.Shutdown())
        require(not self.claims and not self.leases, "shutdown leaves nobody waiting or holding")
        require(all(slot.state == "stopping" for slot in self.slots.values()), "shutdown stops all")
        self._send(self.events.Shutdown())
        self.asked += 1
        key = next(iter(self.specs))
        self.claims[self.asked] = claim = MirrorClaim(key, "", "ann", self.now + 9, None, self.step)
        self.lines.setdefault((key, ""), {}).setdefault("ann", {})[self.asked] = claim
        self._send(self.events.Claim(self.asked, key, "", "ann", self.now + 9))
        require(self.asked not in self.claims, "a claim after shutdown is refused")
        require(self.outcomes == self.asked, "every claim has exactly one outcome", self.outcomes, self.asked)
        for _ in range(3):
            self.now += 10.0
            self._send(self.events.Tick())
        for number in list(self.slots):
            self._gone(number)
        left = [name for name in INDEXES if getattr(self.books, name)]
        require(not left, "the books are empty at the end", left)
        require(self.books.charged == 0 and self.books.starting == 0, "nothing is counted any more")
        require(not self.books.turns.last and not self.books.turns.waiting, "no turns are kept")


ACTIONS = [
    "StartSlot",
    "AdoptSlot",
    "StopSlot",
    "OpenSeat",
    "CloseSeat",
    "Grant",
    "Refuse",
    "MoveRequested",
    "SeatsLost",
    "Probe",
    "WakeAt",
    "ForgetKey",
    "Note",
]
INDEXES = [
    "stables",
    "slots",
    "seats",
    "leases",
    "claims",
    "granted",
    "nested",
    "opening",
    "closing",
    "open_groups",
    "spares",
    "breakers",
    "hungry",
]
MOVES = (
    ("claim", 200),
    ("claim_unknown", 2),
    ("claim_again", 4),
    ("abandon", 30),
    ("release", 150),
    ("boundary", 25),
    ("hint", 5),
    ("warm", 5),
    ("respec", 4),
    ("pause", 2),
    ("resume", 12),
    ("drain_key", 2),
    ("drain_slot", 3),
    ("recycle", 4),
    ("kill", 4),
    ("reconnect", 4),
    ("tick", 30),
    ("start_answer", 130),
    ("reaped", 100),
    ("seat_answer", 180),
    ("close_answer", 110),
    ("seat_broken", 5),
    ("death", 6),
    ("memory", 25),
    ("probe", 20),
    ("echo", 10),
    ("junk", 10),
)

PARTS, WORLDS_PER_PART, STEPS_PER_WORLD = 8, 25, 5_000
STEPS_PER_PART = WORLDS_PER_PART * STEPS_PER_WORLD


def walk_part(lib: ModuleType, part: int) -> int:
    """One part of the million: many short worlds, since it is worlds that differ, and each is shut down at
    its end.
    """
    first = part * WORLDS_PER_PART
    return sum(Walk(lib, seed).run(STEPS_PER_WORLD) for seed in range(first, first + WORLDS_PER_PART))
