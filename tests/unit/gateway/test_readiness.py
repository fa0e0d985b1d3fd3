"""When the gateway calls itself ready."""

from dataclasses import dataclass

from ostler.gateway.readiness import FORGIVEN_AFTER, SEVERAL, Readiness
from ostler.pool.keys import TransportKey

KEY = TransportKey("demo", "default", "/tmp")


@dataclass
class Clock:
    now: float = 1000.0

    def __call__(self) -> float:
        self.now += 1
        return self.now


def fail(readiness: Readiness, times: int = 1, provider: str = "demo") -> None:
    for _ in range(times):
        readiness.started(provider, "failed", "spawn", 0.1)


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
