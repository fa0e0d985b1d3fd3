"""A random walk over the whole event alphabet of the pool core, with a world that answers as badly as the
real one.

Rules: the walk keeps its own mirror, fed by actions only, and judges every action against it; after every
step it asks the level questions (is a waiter beside a usable seat?), and every so often it recounts the
state. `lib` is the package under test, so that a mutated copy can be walked as well. All randomness is here,
from one seed.
"""

from dataclasses import replace
from types import ModuleType
from typing import Any

from tests.pool.core.judge import Judge
from tests.pool.core.mirror import OWNERS, TOOLS, MirrorClaim, line_of
from tests.pool.core.worlds import make_limits, make_spec
from tests.support.walks import BrokenInvariantError, require


class Walk(Judge):
    def __init__(self, lib: ModuleType, seed: int) -> None:
        super().__init__(lib, seed)
        self._judges = {getattr(lib.actions, name): getattr(self, f"_on_{name}") for name in ACTIONS}
        self._moves = [move for name, weight in MOVES for move in [getattr(self, f"_{name}")] * weight]

    # stepping

    def run(self, steps: int) -> int:
        """Walk, then shut down and see that nothing is left. Returns the number of events handled."""
        for key in range(self.rng.randint(2, 5)):
            spec = make_spec(self.rng, self.lib, key)
            if key == 1 and self.seed % 3 == 0:
                # It lives on what is kept ready for its reserve as well.
                spec = replace(self.specs[0], reserve=0)
            self._register(key, spec)
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
        try:
            actions: list[Any] = self.core.handle(event, self.now)
        except Exception as error:
            raise BrokenInvariantError(f"no event is too much for the core: {event}") from error
        if type(event) is self.events.Tick:
            self.wake = float("inf")
            for number, seat in list(self.seats.items()):
                if seat.state == "closing" and self.now - seat.since >= self.limits.close_timeout:
                    self._drop_seat(number)
            self._prove_old()
            self._stop_listening()
            used = {self._group(key) for key in self.state.keys}
            self.fails = {group: fails for group, fails in self.fails.items() if group in used}
            long_ago = self.now - 2.0 * self.limits.backoff_cap
            self.shorts = {
                group: short for group, short in self.shorts.items() if group in used and short[1] > long_ago
            }
        for action in actions:
            self._judges[type(action)](action)
        self._level()
        if self.step % 64 == 0:
            self._recount()
        return actions

    def _send_stale(self, event: Any) -> None:
        for action in self._send(event):
            calm = isinstance(action, (self.lib.actions.Notable, self.lib.actions.WakeAt))
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
        tools: Any = rng.choice(TOOLS)
        resume = f"session {self.asked}" if rng.random() < 0.08 else None
        parent = self._pick(tuple(self.leases)) if rng.random() < 0.08 else None
        owner = rng.choice(OWNERS)
        self.cooled.discard(key)
        line = line_of(tools, resume)
        claim = MirrorClaim(key, line, owner, self.now + rng.random() * 25.0, parent, self.step + 1, self.now)
        self.claims[self.asked] = claim
        waiting = self.queues.setdefault((key, line), {})
        if owner not in waiting:
            waiting[owner] = {}
            self.marks[key, line, owner] = self._next_mark()
        waiting[owner][self.asked] = claim
        self._send(self.events.Claim(self.asked, key, tools, owner, claim.deadline, parent, resume=resume))
        bound = max(self.limits.max_queue, self.queued)
        require(len(self.claims) <= bound, "the queue is bounded", len(self.claims))

    def _claim_unknown(self) -> None:
        self.asked += 1
        self.claims[self.asked] = MirrorClaim("nobody", "", "ann", self.now, None, self.step + 1)
        self.queues.setdefault(("nobody", ""), {}).setdefault("ann", {})[self.asked] = self.claims[self.asked]
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
            require(lease not in self.state.leases, "an abandoned grant is given back", lease)

    def _release(self) -> None:
        if (number := self._pick(tuple(self.leases))) is None:
            return
        lease = self.leases[number]
        self._end_lease(number)
        self.last_answer = self.events.LeaseReleased(number)
        actions = self._send(self.last_answer)
        closed = [one.seat for one in actions if isinstance(one, self.lib.actions.CloseSeat)]
        require(lease.seat in closed, "a used seat is closed, never parked again", lease.seat)

    def _answered(self) -> None:
        if (number := self._pick(tuple(self.leases))) is not None:
            slot = self.slots[self.leases[number].slot]
            slot.heard, slot.unheard_since = True, None
            self._send(self.events.Answered(number))

    def _warm(self) -> None:
        if self.core.knows(key := self.rng.choice(tuple(self.specs))):
            seats = self.rng.choice((0, 0, 0, 1, 2))
            self.cooled -= {key} if seats else set()
            self._send(self.events.KeepWarm(key, self.rng.choice(TOOLS), seats))

    def _respec(self) -> None:
        key = self.rng.choice(tuple(self.specs))
        old = self.specs[key]
        fingerprint = old.fingerprint
        if self.rng.random() < 0.3:
            fingerprint = "f1" if old.traits.cwd_per_session and fingerprint == "f0" else f"f{key}.{self.step}"
        cap = self.rng.choice((None, 1, 2))
        spec = self.lib.KeySpec(old.provider, fingerprint, old.traits, old.spares, cap, old.reserve)
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

    def _cool(self) -> None:
        if self.core.knows(key := self.rng.choice(tuple(self.specs))):
            if all(claim.key != key for claim in self.claims.values()):
                self.cooled.add(key)
            self._send(self.events.StopWarming(key))

    def _relimit(self) -> None:
        """Other limits, lower ones too: what is over them already may stay, and no more may come."""
        limits = make_limits(self.rng, self.lib)
        self._earn()
        if limits.memory_ceiling != self.limits.memory_ceiling:
            self.ceilings.clear()
        self.limits, self.crowd, self.queued = limits, len(self.slots), len(self.claims)
        self._send(self.events.LimitsChanged(limits))

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
            self.shorts.pop(self._group(key), None)
            self._send(self.events.Reconnect(key))

    def _tick(self) -> None:
        self._send(self.events.Tick())

    # moves: the world answers

    def _fill_up(self) -> None:
        self.full_until = self.now + self.rng.random() * 40.0

    def _ready(self) -> int | None:
        ready: int | None = self._pick([number for number, slot in self.slots.items() if slot.state == "ready"])
        return ready

    def _start_answer(self) -> None:
        starting = [number for number, slot in self.slots.items() if slot.state == "starting" and not slot.mute]
        if (number := self._pick(starting)) is None:
            return
        slot, luck, before = self.slots[number], self.rng.random(), list(self.claims.items())
        if self.now < self.full_until:
            luck = 0.82
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
        shortage = luck < 0.84
        if shortage:
            self._fell_short(slot)
        else:
            self._failed(slot)
        if luck < 0.92:
            retryable = self.rng.random() < 0.7
            text = self.rng.choice(("exit 1", "exit 2"))
            self._send(self.events.SlotStartFailed(number, "initialize", text, self.rng.random(), retryable, shortage))
        elif luck < 0.96:
            self._send(self.events.SlotDied(number, "exit 3"))
        else:
            self._gone(number)
            return
        require(self.slots[number].state == "stopping", "a failed start leaves no slot", number)
        others = [one for one in self.slots.values() if one.key == slot.key and one.state != "stopping"]
        left = [claim for claim, one in before if one.key == slot.key and claim in self.claims]
        require(slot.spare or others or not left, "a failed start is the error of all who waited for it", left)

    def _reaped(self) -> None:
        stopping = [number for number, slot in self.slots.items() if slot.state == "stopping" and not slot.mute]
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
        require(number not in self.state.slots, "GONE is gone", number)
        self.dead.append(number)

    def _seat_made(self) -> None:
        opening = [number for number, seat in self.seats.items() if seat.state == "opening" and seat.asked]
        if (number := self._pick(opening)) is not None:
            self.seats[number].asked = False
            self.last_answer = self.events.SeatMade(number)
            self._send(self.last_answer)

    def _seat_answer(self) -> None:
        opening = [number for number, seat in self.seats.items() if seat.state == "opening" and not seat.mute]
        if (number := self._pick(opening)) is None:
            return
        seat = self.seats[number]
        if self.rng.random() < 0.93:
            seat.state, seat.parked_step = "parked", self.step + 1
            self._proven(self.slots[seat.slot])
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
        whole = [number for number, seat in self.seats.items() if seat.state in {"parked", "leased"}]
        if (number := self._pick(whole)) is not None:
            leased, self.told_broken = self.seats[number].state == "leased", None
            self._send(self.events.SeatBroken(number))
            if leased:
                require(self.told_broken == number, "the holder of a broken seat is told to move", number)
                require(self.seats[number].state == "leased", "a leased seat stays its holder's", number)
                return
            gone = number not in self.seats or self.seats[number].state == "closing"
            require(gone, "a broken seat is nobody's", number)

    def _death(self) -> None:
        if (number := self._ready()) is None:
            return
        slot = self.slots[number]
        if not self.state.slots[number].proven:
            self._failed(slot)
        if self.rng.random() < 0.3:
            self._gone(number)
            return
        self._send(self.events.SlotDied(number, "exit 139"))
        require(slot.state == "stopping" and not slot.leases, "a dead process loses its leases at once", number)

    def _spent(self) -> None:
        unheld = [number for number, slot in self.slots.items() if slot.state == "ready" and not slot.leases]
        if (number := self._pick(unheld)) is not None:
            self._send(self.events.SlotSpent(number))
            require(self.slots[number].state == "stopping", "a process that ended with its session goes", number)

    def _memory(self) -> None:
        if (number := self._pick(tuple(self.slots))) is not None:
            size = self.rng.randint(60, 240)
            for _ in range(1 + size % 3):
                self._send(self.events.MemorySampled(number, size, size, 1))

    def _probe(self) -> None:
        if (number := self._ready()) is None:
            return
        if self.rng.random() < 0.6:
            self._proven(self.slots[number])
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
                    events.SlotSpent(number),
                    events.SlotGone(number),
                    events.SeatMade(number),
                    events.SeatOpened(number),
                    events.SeatOpenFailed(number, "x"),
                    events.SeatClosed(number, True),
                    events.SeatBroken(number),
                    events.MemorySampled(number, 100, 100, 1),
                    events.ProbeAnswered(number),
                    events.ProbeMissed(number),
                    events.LeaseReleased(number),
                    events.Answered(number),
                    events.ClaimAbandoned(-1),
                    events.Recycle(number),
                    events.Kill(number),
                    events.DrainKey("nobody"),
                    events.StopWarming("nobody"),
                    events.KeepWarm("nobody", "", 1),
                    events.Pause("nobody"),
                    events.Reconnect("nobody"),
                )
            )
        )

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
        self.queues.setdefault((key, ""), {}).setdefault("ann", {})[self.asked] = claim
        self._send(self.events.Claim(self.asked, key, "", "ann", self.now + 9))
        require(self.asked not in self.claims, "a claim after shutdown is refused")
        require(self.outcomes == self.asked, "every claim has exactly one outcome", self.outcomes, self.asked)
        for _ in range(3):
            self.now += 10.0
            self._send(self.events.Tick())
        for number in list(self.slots):
            self._gone(number)
        left = [name for name in INDEXES if getattr(self.state, name)]
        require(not left, "the state is empty at the end", left)
        require(self.state.charged == 0 and self.state.starting == 0, "nothing is counted any more")
        require(not self.state.turns.last and not self.state.turns.waiting, "no turns are kept")


ACTIONS = tuple(name.removeprefix("_on_") for name in dir(Judge) if name.startswith("_on_"))
INDEXES = [
    "keys",
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
    "first_answer_pending",
    "breakers",
    "unserved_keys",
]
MOVES = (
    ("claim", 200),
    ("claim_unknown", 2),
    ("claim_again", 4),
    ("abandon", 30),
    ("release", 150),
    ("answered", 60),
    ("warm", 8),
    ("respec", 4),
    ("pause", 2),
    ("resume", 12),
    ("drain_key", 2),
    ("cool", 4),
    ("relimit", 4),
    ("recycle", 10),
    ("kill", 4),
    ("reconnect", 4),
    ("tick", 30),
    ("fill_up", 2),
    ("start_answer", 130),
    ("reaped", 100),
    ("seat_made", 90),
    ("seat_answer", 180),
    ("close_answer", 110),
    ("seat_broken", 5),
    ("death", 6),
    ("spent", 4),
    ("memory", 25),
    ("probe", 20),
    ("echo", 10),
    ("junk", 10),
)

PARTS, WORLDS_PER_PART, STEPS_PER_WORLD = 16, 13, 4_850
STEPS_PER_PART = WORLDS_PER_PART * STEPS_PER_WORLD


def walk_part(lib: ModuleType, part: int) -> int:
    """One part of the million: many short worlds, since it is worlds that differ, and each is shut down at
    its end.
    """
    first = part * WORLDS_PER_PART
    return sum(Walk(lib, seed).run(STEPS_PER_WORLD) for seed in range(first, first + WORLDS_PER_PART))
