"""What is done ahead makes way for a first answer, for a bounded time; those who wait make way for nobody."""

from ostler.pool.core import CoreSharing, ReserveRule, events
from ostler.pool.core.reasons import Hold, reasons
from tests.pool.core.driver import Pool

WAY = 3.0
LEARNING = ReserveRule(most=1)
ALONE = {"sharing": CoreSharing.NONE, "seats_per_process": 1}


def cold(**limits: object) -> Pool:
    """A pool whose one lease was granted cold at 1.0; its agent has said nothing yet."""
    pool = Pool(reserve=LEARNING, give_way=WAY, **limits)
    pool.register(**ALONE)
    assert pool.claim() == ["start #1 k"]
    assert pool.started(1, after=1.0) == ["open 2 on #1"]
    assert pool.opened(2) == ["grant c1 lease 3 on #1 cold no_process"]
    return pool


def test_the_next_process_is_started_when_the_first_answer_begins() -> None:
    pool = cold()
    assert pool.tick(1.0) == []
    assert pool.answered(3) == ["start #4 k"]


def test_an_answer_that_never_comes_holds_the_reserve_up_for_a_bounded_time() -> None:
    pool = cold()
    assert pool.tick(WAY - 0.1) == []
    assert pool.tick(0.1) == ["start #4 k"]


def test_a_process_is_waited_for_once() -> None:
    """Whoever takes seats and asks nothing of them is served as fast as anybody."""
    pool = Pool(give_way=WAY)
    pool.register()
    pool.claim()
    pool.started(1)
    pool.opened(2)
    assert pool.tick(WAY) == []
    assert pool.do(events.KeepWarm("k", "", 1)) == ["open 4 on #1"]
    pool.opened(4)
    assert pool.claim()[-1] == "open 6 on #1"


def test_the_end_of_the_bound_is_announced() -> None:
    pool = cold()
    assert pool.core.state.announced <= 1.0 + WAY


def test_a_lease_that_ends_unanswered_holds_up_nothing() -> None:
    pool = cold()
    said = pool.release(3)
    assert "start #4 k" in said + pool.closed(2) + pool.gone(1)


def test_whoever_waits_is_started_for_at_once() -> None:
    pool = cold()
    assert pool.claim() == ["start #4 k"]


def test_a_burst_is_warmed_for_once_its_first_answers_have_begun() -> None:
    pool = Pool(reserve=ReserveRule(most=2), give_way=WAY, start_burst=9, max_processes=9, max_processes_per_key=9)
    pool.register(**ALONE)
    assert pool.claim() + pool.claim() == ["start #1 k", "start #2 k"]
    pool.started(1, after=1.0)
    pool.started(2)
    assert [line.split()[0] for line in pool.opened(3, 4)] == ["grant", "grant"]
    assert pool.answered(5) == []
    assert pool.answered(6) == ["start #7 k", "start #8 k"]


def test_another_key_gives_way_too_and_not_to_one_answer_after_the_other() -> None:
    pool = Pool(give_way=WAY, max_processes=9)
    pool.register("a", **ALONE)
    pool.claim("a")
    pool.started(1, after=1.0)
    pool.opened(2)
    pool.register("b")
    assert pool.do(events.KeepWarm("b", "", 1)) == []
    explained = reasons(pool.core.state, "b")
    assert explained is not None
    assert Hold.FIRST_ANSWER in explained.holds
    pool.register("c", **ALONE)
    pool.now += 2.0
    assert pool.claim("c") == ["start #4 c"]
    assert pool.answered(3) == []
    assert pool.tick(WAY - 2.0) == ["start #5 b"]


def test_an_unheard_process_opens_nothing_ahead() -> None:
    pool = Pool(give_way=WAY)
    pool.register()
    assert pool.claim(tools="t") == ["start #1 k"]
    assert pool.do(events.KeepWarm("k", "t", 1)) == []
    assert pool.started(1) == ["open 2 on #1 t"]
    assert pool.opened(2) == ["grant c1 lease 3 on #1 cold no_process"]
    assert pool.claim(tools="t") == ["open 4 on #1 t"], "a waiter is no reserve"
    assert pool.opened(4) == ["grant c2 lease 5 on #1 warm reserve_empty"]
    assert pool.answered(5) == ["open 6 on #1 t"]


def test_a_process_that_has_answered_once_opens_ahead_at_once() -> None:
    pool = Pool(give_way=WAY)
    pool.register()
    pool.leased(tools="t")
    assert pool.do(events.KeepWarm("k", "t", 1)) == ["open 4 on #1 t"]
    pool.opened(4)
    assert pool.claim(tools="t")[-1] == "open 6 on #1 t"


def test_what_a_first_answer_takes_is_part_of_a_refill() -> None:
    """Else the reserve of an agent with a process for each session would be sized as if it were refilled at once."""
    pool = cold()
    key_state = pool.core.state.keys["k"]
    pool.now += 1.0
    pool.answered(3)
    assert 0.0 < key_state.answer_seconds <= 1.0
