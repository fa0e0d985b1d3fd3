"""Drives one pool core by hand and prints its actions in short words, so that a test reads as a dialogue."""

from typing import Any

from ostler.pool.core import KeySpec, LeaseId, Limits, PoolCore, ReserveRule, SeatId, SlotId, Traits, actions, events
from tests.pool.core.picture import describe

QUIET = ReserveRule(most=4, keep_seconds=1e-6)
"""A rule that never learns anything: only floors park seats."""


def spec(
    fingerprint: str = "f", *, spares: int = 0, most: int | None = None, reserve: str | None = None, **traits: Any
) -> KeySpec:
    return KeySpec("gem", fingerprint, Traits(**({"seats_per_process": 3} | traits)), spares, most, reserve)


def words(action: actions.Action) -> str:  # noqa: C901  # one case per action
    match action:
        case actions.StartSlot(slot, key, _, spare):
            return f"start #{slot} {key}" + (" spare" if spare else "")
        case actions.AdoptSlot(slot, key):
            return f"adopt #{slot} {key}"
        case actions.StopSlot(slot, hard, cause):
            return f"stop #{slot} {'hard' if hard else 'soft'} {cause.value}"
        case actions.OpenSeat(seat, slot, _, tools, resume):
            return f"open {seat} on #{slot} {tools}".rstrip() + (f" for {resume}" if resume else "")
        case actions.CloseSeat(seat, _):
            return f"close {seat}"
        case actions.Grant(claim, lease, _, slot, _, warmth, miss, _):
            return f"grant {claim} lease {lease} on #{slot} {warmth.value} {miss.value}"
        case actions.Refuse(claim, kind, _, _, _, _, text):
            return f"refuse {claim} {kind.value} {text}".rstrip()
        case actions.MoveRequested(lease, _, cause):
            return f"move {lease} {cause.value}"
        case actions.SeatsLost(_, leases, cause, text):
            return f"lost {','.join(map(str, leases))} {cause.value} {text}".rstrip()
        case actions.Probe(slot):
            return f"probe #{slot}"
        case actions.ForgetKey(key):
            return f"forget {key}"
        case actions.Notable(what, _, _, cause, _):
            return f"note {what.value}" + (f" {cause.value}" if cause else "")
        case actions.WakeAt(time):
            return f"wake {time:g}"


class Pool:
    """A core with a clock of its own; `do` returns the words of what it was told, wake-ups aside."""

    def __init__(self, **limits: Any) -> None:
        self.core = PoolCore(Limits(**({"reserve": QUIET, "sweep_every": 1.0, "probe_every": None} | limits)))
        self.now = 0.0
        self.claims = 0

    def do(self, event: events.CoreEvent, after: float = 0.0) -> list[str]:
        self.now += after
        return [words(action) for action in self.core.handle(event, self.now) if not isinstance(action, actions.WakeAt)]

    def register(self, key: str = "k", **facts: Any) -> list[str]:
        return self.do(events.KeyRegistered(key, spec(**facts)))

    def warm(self, key: str = "k", tools: str = "t", seats: int = 1) -> list[str]:
        return self.do(events.KeepWarm(key, tools, seats))

    def claim(self, key: str = "k", tools: str = "", owner: str = "ann", **more: Any) -> list[str]:
        self.claims += 1
        patience = more.pop("patience", 30.0)
        return self.do(events.Claim(f"c{self.claims}", key, tools, owner, self.now + patience, **more))

    def started(self, slot: int, after: float = 0.0, jitter: float = 0.0) -> list[str]:
        return self.do(events.SlotStarted(SlotId(slot), jitter), after)

    def failed(self, slot: int, *, retryable: bool = True, shortage: bool = False) -> list[str]:
        said = self.do(events.SlotStartFailed(SlotId(slot), "initialize", "exit 1", 0.5, retryable, shortage))
        return said + self.gone(slot)

    def gone(self, slot: int) -> list[str]:
        return self.do(events.SlotGone(SlotId(slot)))

    def opened(self, *seats: int) -> list[str]:
        return [line for seat in seats for line in self.do(events.SeatOpened(SeatId(seat)))]

    def closed(self, seat: int, *, clean: bool = True) -> list[str]:
        return self.do(events.SeatClosed(SeatId(seat), clean))

    def release(self, lease: int) -> list[str]:
        return self.do(events.LeaseReleased(LeaseId(lease)))

    def answered(self, lease: int) -> list[str]:
        return self.do(events.Answered(LeaseId(lease)))

    def tick(self, after: float = 0.0) -> list[str]:
        return self.do(events.Tick(), after)

    def leased(self, key: str = "k", **more: Any) -> int:
        """Claim a seat, answer whatever it takes to get it, and hear its first word; the lease's number."""
        said = self.claim(key, **more)
        for _ in range(4):
            for line in said:
                if line.startswith("grant"):
                    lease = int(line.split()[3])
                    self.answered(lease)
                    return lease
            said = self._answer(said)
        raise AssertionError(describe(self.core.state))

    def _answer(self, said: list[str]) -> list[str]:
        heard: list[str] = []
        for line in said:
            if line.startswith("start"):
                heard += self.started(int(line.split()[1][1:]))
            elif line.startswith("open"):
                heard += self.opened(int(line.split()[1]))
        return heard

    def says(self) -> str:
        return describe(self.core.state)
