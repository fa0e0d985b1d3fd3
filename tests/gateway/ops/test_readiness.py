"""When the gateway calls itself ready."""

from dataclasses import dataclass, field

import pytest

from ostler.gateway.ops.readiness import FORGIVEN_AFTER, LASTS, LATE, SEVERAL, SLOWER, Readiness
from ostler.pool.keys import TransportKey
from ostler.pool.snapshot import UnderWay, WorkKind

KEY = TransportKey("demo", "default", "/tmp")


@dataclass
class Clock:
    now: float = 1000.0

    def __call__(self) -> float:
        self.now += 1
        return self.now


@dataclass
class Hanging:
    """A pool in which one thing has been under way since a moment."""

    clock: Clock
    work: WorkKind = WorkKind.START
    since: float | None = None

    def __call__(self) -> list[UnderWay]:
        return [] if self.since is None else [UnderWay("demo", self.work, self.clock.now - self.since)]


@dataclass
class Old:
    """A gateway that has lived: its provider was started and serves."""

    clock: Clock = field(default_factory=Clock)

    def __post_init__(self) -> None:
        self.pool = Hanging(self.clock)
        self.readiness = Readiness(clock=self.clock, under_way=self.pool)
        self.readiness.started("demo", "started", "", 0.1)
        self.readiness.opened("demo", "opened", 0.1)
        serve(self.readiness)

    def red_after(self, most: float) -> float | None:
        """Seconds until it is red, with the old process serving all the time."""
        began = self.clock.now
        while self.clock.now - began < most:
            serve(self.readiness)
            if not self.readiness.ready:
                return self.clock.now - began
        return None


def fail(readiness: Readiness, times: int = 1, provider: str = "demo") -> None:
    for _ in range(times):
        readiness.started(provider, "failed", "handshake", 0.1)


def serve(readiness: Readiness) -> None:
    readiness.claimed(KEY, "parked", "none", 0.0)


def test_a_gateway_is_ready_until_something_is_known_unless_it_is_to_warm_a_key() -> None:
    assert Readiness(clock=Clock()).ready
    warming = Readiness(clock=Clock(), expects=True)
    assert not warming.ready
    warming.started("demo", "started", "", 0.1)
    assert warming.ready


def test_w46_one_failed_start_is_made_good_by_a_turn_that_is_served() -> None:
    readiness = Readiness(clock=Clock())
    serve(readiness)
    fail(readiness)
    assert not readiness.ready
    serve(readiness)
    assert readiness.ready


def test_w46_several_failed_starts_are_not_made_good_by_an_older_process() -> None:
    clock = Clock()
    readiness = Readiness(clock=clock)
    serve(readiness)
    fail(readiness, SEVERAL)
    serve(readiness)
    assert not readiness.ready
    readiness.started("demo", "started", "", 0.1)
    assert readiness.ready


def test_w46_failures_that_nobody_missed_are_forgiven_after_a_while() -> None:
    clock = Clock()
    readiness = Readiness(clock=clock)
    fail(readiness, SEVERAL)
    serve(readiness)
    clock.now += FORGIVEN_AFTER
    assert readiness.ready
    fail(readiness)
    assert not readiness.ready


def test_one_broken_provider_of_two_leaves_the_gateway_ready() -> None:
    readiness = Readiness(clock=Clock())
    serve(readiness)
    fail(readiness, SEVERAL, "gemini")
    assert readiness.ready
    fail(readiness, SEVERAL)
    assert not readiness.ready


@pytest.mark.parametrize("work", list(WorkKind))
def test_w46_what_hangs_turns_it_red_within_30_s_although_an_old_process_serves(work: WorkKind) -> None:
    old = Old()
    old.pool.work, old.pool.since = work, old.clock.now
    red = old.red_after(60)
    assert red is not None
    assert LATE <= red <= 30
    if work is WorkKind.START:
        old.readiness.started("demo", "started", "", 40)
    else:
        old.readiness.opened("demo", "opened", 40)
    old.pool.since = None
    assert old.readiness.ready


def test_w46_a_start_that_hung_until_its_deadline_is_not_forgotten_when_the_next_one_begins() -> None:
    old = Old()
    old.pool.since = old.clock.now
    assert old.red_after(60) is not None
    old.clock.now += 30
    old.readiness.started("demo", "failed", "handshake", 60)
    old.pool.since = old.clock.now
    serve(old.readiness)
    assert not old.readiness.ready


def test_w46_a_start_that_is_slow_as_always_is_not_suspected() -> None:
    old = Old()
    old.readiness.started("demo", "started", "", 20)
    old.pool.since = old.clock.now
    assert old.red_after(LATE) is None
    old.readiness.started("demo", "started", "", 40)
    old.pool.since = old.clock.now
    assert old.red_after(40 * SLOWER - 5) is None
    assert old.red_after(10) is not None


def test_w46_one_that_hangs_alone_while_others_come_up_is_its_own_affair() -> None:
    old = Old()
    old.pool.since = old.clock.now
    old.clock.now += LATE
    assert not old.readiness.ready
    old.readiness.started("demo", "started", "", 0.1)
    assert old.readiness.ready


def test_w46_a_first_start_that_hangs_is_red_although_nothing_was_ever_told() -> None:
    clock = Clock()
    pool = Hanging(clock, since=clock.now)
    readiness = Readiness(clock=clock, under_way=pool)
    assert readiness.ready
    clock.now += LATE
    assert not readiness.ready


def test_w46_a_program_that_cannot_be_run_is_not_made_good_by_an_older_process() -> None:
    old = Old()
    old.readiness.started("demo", "failed", "spawn", 0.0)
    assert old.red_after(5) is not None


def test_w46_processes_that_come_up_and_die_at_once_are_no_good_starts() -> None:
    old = Old()
    for _ in range(SEVERAL):
        old.readiness.started("demo", "started", "", 0.1)
        old.readiness.noted("demo", "start_failed", "died")
    assert old.red_after(5) is not None
    old.readiness.started("demo", "started", "", 0.1)
    assert old.red_after(5) is not None, "coming up proves nothing now"
    old.clock.now += LASTS
    serve(old.readiness)
    assert old.readiness.ready


def test_w46_sessions_that_cannot_be_opened_turn_it_red_and_one_that_opens_mends_it() -> None:
    old = Old()
    for _ in range(SEVERAL - 1):
        old.readiness.opened("demo", "failed", 0.1)
    assert old.readiness.ready
    old.readiness.opened("demo", "failed", 0.1)
    assert old.red_after(5) is not None
    old.readiness.opened("demo", "opened", 0.1)
    assert old.readiness.ready
