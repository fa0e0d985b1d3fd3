"""Keys that clients make up: how many of them are remembered, and for how long."""

from ostler.pool.core.settings import Limits
from tests.pool.core.driver import Pool, events

MANY = 1000


def test_n34_a_key_that_never_came_up_is_forgotten_when_its_back_off_is_over() -> None:
    pool = Pool(backoff_cap=30.0)
    pool.register("made up")
    pool.claim("made up", patience=5.0)
    pool.failed(1, retryable=False)
    for _ in range(20):
        pool.tick(60.0)
    assert not pool.core.knows("made up")


def test_n34_of_keys_that_nobody_uses_only_the_last_few_are_remembered() -> None:
    pool = Pool(max_idle_keys=3, max_processes=1, max_queue=MANY)
    for number in range(MANY):
        pool.register(f"k{number}")
        pool.claim(f"k{number}", patience=0.5)
        pool.claim(f"k{number}", patience=0.5)  # a burst, which is remembered for a day
        if number == 0:
            pool.started(1)
        pool.tick(1.0)
    keys = set(pool.core.state.keys)
    assert len(keys) <= 3 + Limits().max_starting + 1
    assert f"k{MANY - 1}" in keys


def test_n34_what_is_ordered_or_used_is_no_surplus() -> None:
    pool = Pool(max_idle_keys=1, max_processes=1)
    pool.register("used")
    pool.claim("used")
    pool.started(1)
    pool.register("ordered")
    pool.warm("ordered")
    pool.register("paused")
    pool.do(events.Pause("paused"))
    for number in range(5):
        pool.register(f"idle {number}")
        pool.tick(2.0)
    assert set(pool.core.state.keys) == {"used", "ordered", "paused", "idle 4"}
