"""Why a key is kept as warm as it is: the explanation is the decision, in other words, and asking changes nothing."""

import random
from collections.abc import Iterator
from typing import Any

import pytest

from ostler.pool.core import events
from ostler.pool.core.reasons import Hold, KeyReasons, TargetReason, reasons
from ostler.pool.core.sizing import ReserveRule
from tests.pool.core.driver import Pool


def explained(pool: Pool, key: str = "k") -> KeyReasons:
    """The reasons of a key that is there."""
    found = reasons(pool.core.state, key)
    assert found is not None
    return found


def line(pool: Pool) -> Any:
    """Its only line."""
    (only,) = explained(pool).lines
    return only


def learning(**limits: Any) -> Pool:
    """A core that learns from arrivals, with a process up."""
    pool = Pool(reserve=ReserveRule(most=4), max_processes=4, **limits)
    pool.register(seats_per_process=50)
    return pool


def crowd(pool: Pool, count: int) -> None:
    """So many claims at once."""
    for _ in range(count):
        pool.claim()


def test_each_target_has_its_reason() -> None:
    pool = learning()
    assert reasons(pool.core.state, "never heard of") is None
    assert explained(pool).lines == ()
    pool.do(events.KeepWarm("k", "", 0))
    assert (line(pool).because, line(pool).target) == (TargetReason.QUIET, 0)
    pool.do(events.KeepWarm("k", "", 2))
    assert (line(pool).because, line(pool).target) == (TargetReason.FLOOR, 2)
    crowd(pool, 3)
    assert (line(pool).because, line(pool).target) == (TargetReason.BURST, 3)
    pool.do(events.KeepWarm("k", "", 9))
    assert (line(pool).because, line(pool).target) == (TargetReason.MOST, 4)


def test_steady_traffic_is_named_once_a_burst_is_over() -> None:
    pool = learning()
    for _ in range(10):
        pool.now += 20.0
        pool.claim()
    assert (line(pool).because, line(pool).steady, line(pool).burst) == (TargetReason.STEADY, 2, 1)
    assert line(pool).expected < 1


def test_what_holds_a_start_back_is_named() -> None:
    pool = Pool(max_processes=1)
    pool.register()
    assert explained(pool).holds == ()
    pool.do(events.Pause("k"))
    pool.do(events.Pause(None))
    assert explained(pool).holds == (Hold.POOL_PAUSED, Hold.KEY_PAUSED)
    pool.do(events.Resume("k"))
    pool.do(events.Resume(None))
    pool.claim()
    assert set(explained(pool).holds) >= {Hold.POOL_CAP, Hold.KEY_CAP}
    pool.failed(1)
    pool.claim()
    pool.failed(2)
    said = explained(pool)
    assert Hold.BACKOFF in said.holds
    assert said.retry_in > 0
    assert said.last_failure == "exit 1"


def test_starts_that_are_made_one_after_the_other_are_named_as_a_hold() -> None:
    pool = Pool(max_starting_per_provider=1)
    for key in "ab":
        pool.register(key, fingerprint=key)
    assert pool.claim("a") == ["start #1 a"]
    assert pool.claim("b") == []
    assert explained(pool, "b").holds == (Hold.PROVIDER_STARTING,)
    pool.started(1)
    assert explained(pool, "a").holds == (Hold.PROVIDER_STARTING,), "by the start for b"


def test_a_first_start_that_is_made_alone_is_named_as_a_hold() -> None:
    pool = Pool()
    for key in "ab":
        pool.register(key, fingerprint=key, first_start_alone=True, open_group="gem:/home")
    assert pool.claim("a") == ["start #1 a"]
    assert pool.claim("b") == []
    assert explained(pool, "b").holds == (Hold.FIRST_START,)
    assert "start #2 b" in pool.started(1)
    assert explained(pool, "b").holds == ()


def test_a_first_answer_is_named_only_where_something_makes_way_for_it() -> None:
    pool = Pool(give_way=3.0, max_processes=2)
    pool.register("a", seats_per_process=1)
    pool.claim("a")
    pool.started(1)
    pool.opened(2)
    pool.register("b")
    assert pool.do(events.KeepWarm("b", "", 1)) == []
    assert explained(pool, "b").holds == (Hold.FIRST_ANSWER,)
    pool.do(events.Pause("b"))
    assert explained(pool, "b").holds == (Hold.KEY_PAUSED,)
    pool.do(events.Resume("b"))
    assert explained(pool, "b").holds == (Hold.FIRST_ANSWER,)
    pool.register("c")
    assert pool.claim("c") == ["start #4 c"]
    assert pool.claim("b") == []
    assert explained(pool, "b").holds == (Hold.POOL_CAP,), "who waits makes way for nobody"


def history(seed: int) -> Iterator[tuple[events.CoreEvent, float]]:
    """A random day at a small pool."""
    random_ = random.Random(seed)
    for number in range(120):
        claim = events.Claim(f"c{number}", "k", random_.choice(["", "t"]), "ann", 1e9)
        wish = random_.choice(
            [events.KeepWarm("k", "", random_.randrange(3)), events.KeepWarm("k", "t", 1), events.Tick()]
        )
        yield random_.choice([claim, claim, wish]), random_.choice([0.0, 0.01, 0.6, 5.0, 700.0])


@pytest.mark.parametrize("seed", range(5))
def test_the_explanation_is_the_decision_and_asking_changes_nothing(seed: int) -> None:
    asked, left_alone = learning(), learning()
    for event, after in history(seed):
        # A decision stands for half a second; looked at right after a Tick past that, both are fresh.
        assert asked.do(event, after) == left_alone.do(event, after)
        assert asked.do(events.Tick(), 0.6) == left_alone.do(events.Tick(), 0.6)
        told = {one.tools: one.target for one in explained(asked).lines}
        decided = {view.tools: view.target for view in left_alone.core.snapshot().keys[0].lines}
        assert told == decided
