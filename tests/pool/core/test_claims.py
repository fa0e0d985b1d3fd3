"""Claims, leases, fairness and warmth."""

import pytest

from ostler.pool.core import ReserveRule, events
from tests.pool.core.driver import Pool


def test_e01_w13a_one_start_serves_any_number_of_claims() -> None:
    pool = Pool()
    pool.register()
    assert pool.claim() == ["start #1 k"]
    assert pool.claim(owner="bob") == []
    assert pool.claim(tools="t") == []
    assert pool.started(1) == ["open 2 on #1", "open 3 on #1 t", "open 4 on #1"]
    assert pool.opened(2, 3, 4) == [
        "grant c1 lease 5 on #1 cold no_process",
        "grant c3 lease 6 on #1 cold starting",
        "grant c2 lease 7 on #1 cold starting",
    ]
    assert pool.says() == "k: #1 ready 3 wait 0"


def test_e02_keys_never_share_a_process() -> None:
    pool = Pool()
    pool.register("a")
    pool.register("b")
    assert pool.claim("a") == ["start #1 a"]
    assert pool.claim("b") == ["start #2 b"]


def test_a_claim_of_an_unknown_key_is_refused() -> None:
    assert Pool().claim("nobody") == ["refuse c1 unknown_key"]


def test_w14b_a_parked_seat_is_a_hit_and_nothing_else_is() -> None:
    pool = Pool()
    pool.register()
    pool.leased()
    assert pool.do(events.KeepWarm("k", "t", 1)) == ["open 4 on #1 t"]
    pool.opened(4)
    assert pool.claim(tools="t") == ["grant c2 lease 5 on #1 parked none", "open 6 on #1 t"]
    assert pool.claim(tools="t") == []
    assert pool.opened(6)[0] == "grant c3 lease 7 on #1 warm full"


def test_w47b_a_process_that_starts_while_a_claim_waits_makes_it_cold_in_the_same_instant() -> None:
    pool = Pool()
    pool.register()
    pool.claim()
    assert pool.started(1) == ["open 2 on #1"]
    assert pool.opened(2) == ["grant c1 lease 3 on #1 cold no_process"]


def test_w23a_a_released_seat_wakes_the_waiter() -> None:
    pool = Pool(max_processes=1)
    pool.register(seats_per_process=1)
    lease = pool.leased()
    assert pool.claim() == []
    assert pool.release(lease) == ["close 2"]
    assert pool.closed(2) == ["open 4 on #1"]
    assert pool.opened(4) == ["grant c2 lease 5 on #1 warm full"]


def test_w23b_round_robin_by_owner_and_first_come_within() -> None:
    pool = Pool(max_processes=1)
    pool.register(seats_per_process=1)
    lease = pool.leased()
    for owner in ("ann", "ann", "ann", "bob"):
        pool.claim(owner=owner)
    order, seat = [], 2
    for _ in range(4):
        pool.release(lease)
        (opened,) = pool.closed(seat)
        seat = int(opened.split()[1])
        (granted,) = pool.opened(seat)
        order.append(granted.split()[1])
        lease = int(granted.split()[3])
    assert order == ["c2", "c5", "c3", "c4"]


def test_w23b_an_ineligible_head_blocks_nobody() -> None:
    pool = Pool(max_processes=1)
    pool.register("a", seats_per_process=1)
    pool.register("b")
    pool.leased("a")
    assert pool.claim("b") == []
    pool.do(events.Pause("b"))
    pool.release(3)
    assert pool.claim("a", owner="bob") == []
    assert pool.closed(2) == ["open 4 on #1"]


def test_w21_a_stale_release_is_counted_and_ends_nothing() -> None:
    pool = Pool()
    pool.register()
    lease, other = pool.leased(), pool.leased()
    assert pool.release(99) == ["note stale"]
    assert pool.release(lease) == ["close 2"]
    assert pool.release(lease) == ["note stale"]
    assert list(pool.core.state.leases) == [other]


def test_w08_a_used_seat_never_comes_back() -> None:
    pool = Pool()
    pool.register()
    lease = pool.leased()
    assert pool.release(lease) == ["close 2"]
    assert pool.closed(2) == []
    assert pool.claim() == ["open 4 on #1"]


def test_wm5_w20_an_abandoned_claim_gives_back_what_it_was_granted() -> None:
    pool = Pool()
    pool.register()
    pool.claim()
    assert pool.do(events.ClaimAbandoned("c1")) == []
    pool.started(1)
    assert pool.leased()
    assert pool.do(events.ClaimAbandoned("c2")) == ["close 2"]
    assert pool.do(events.ClaimAbandoned("c2")) == ["note stale"]
    assert pool.says() == "k: #1 ready 0 wait 0"


def test_a_claim_is_not_taken_twice() -> None:
    pool = Pool()
    pool.register()
    pool.claim()
    assert pool.do(events.Claim("c1", "k", "", "ann", 99.0)) == ["note stale"]


def test_w23e_a_deadline_refuses_with_census_and_the_last_failure() -> None:
    pool = Pool(max_processes=1)
    pool.register()
    pool.claim()
    pool.failed(1)
    pool.claim(patience=5.0)
    action = next(one for one in pool.core.handle(events.Tick(), 6.0) if type(one).__name__ == "Refuse")
    assert str(action).startswith("Refuse(claim='c2', kind=<RefusalKind.SATURATED: 'saturated'>, waited=6.0, census=")
    assert str(action).endswith("retry_after=10.0, phase='initialize', text='exit 1')")


def test_the_queue_is_bounded() -> None:
    pool = Pool(max_queue=1)
    pool.register()
    pool.claim()
    assert pool.claim() == ["refuse c2 saturated 1 claims wait already"]


def test_w23c_a_child_that_only_its_ancestors_could_serve_is_refused_at_once() -> None:
    pool = Pool(max_processes=1)
    pool.register(seats_per_process=1)
    lease = pool.leased()
    (said,) = pool.claim(parent=lease)
    assert said.startswith("refuse c2 deadlock")


@pytest.mark.parametrize("cap", ["pool", "key"])
def test_w23c_a_child_waits_while_somebody_else_may_end(cap: str) -> None:
    pool = Pool(max_processes=2 if cap == "pool" else 9, max_processes_per_key=2)
    pool.register(seats_per_process=1)
    first = pool.leased()
    second = pool.leased(owner="bob")
    assert pool.claim(parent=first) == []
    said = pool.claim(parent=second)
    assert [line.split()[:3] for line in said] == [["refuse", "c3", "deadlock"]]
    assert pool.says().endswith("wait 1")


def test_pause_holds_claims_until_their_deadline_and_resume_serves_them() -> None:
    pool = Pool()
    pool.register()
    assert pool.do(events.Pause("k")) == []
    assert pool.claim(patience=2.0) == []
    assert pool.claim() == []
    assert pool.tick(3.0) == ["refuse c1 paused"]
    assert pool.do(events.Resume("k")) == ["start #1 k"]
    pool.do(events.Pause())
    assert pool.started(1) == []
    assert pool.do(events.Resume()) == ["open 2 on #1"]


def test_e13_a_shutdown_leaves_the_grace_of_a_process_that_ends_already() -> None:
    pool = Pool()
    pool.register()
    pool.leased()
    pool.do(events.DrainKey("k"))
    assert pool.release(3) == ["close 2", "stop #1 soft operator"]
    assert pool.do(events.Shutdown()) == ["stop #4 soft shutdown"]
    assert pool.do(events.Shutdown()) == ["stop #1 hard shutdown", "stop #4 hard shutdown"]


def test_e14_shutdown_refuses_all_stops_all_and_is_idempotent() -> None:
    pool = Pool()
    pool.register(seats_per_process=1)
    pool.leased()
    pool.claim()
    assert pool.do(events.Shutdown()) == [
        "refuse c2 closed",
        "lost 3 shutdown the pool shuts down",
        "stop #1 soft shutdown",
        "stop #4 soft shutdown",
    ]
    assert pool.do(events.Shutdown()) == ["stop #1 hard shutdown", "stop #4 hard shutdown"]
    assert pool.claim() == ["refuse c3 closed"]
    assert pool.started(4) == ["note stale"]
    pool.gone(1)
    pool.gone(4)
    assert pool.says() == " closed"
    assert pool.register() == ["note stale"]


def test_something_that_is_no_event_is_a_defect() -> None:
    with pytest.raises(TypeError, match="not an event"):
        Pool().core.handle("hello", 0.0)  # type: ignore[arg-type] - tests name leases by number


def test_a_claim_that_resumes_gets_a_seat_of_its_own_and_its_token_with_the_open() -> None:
    pool = Pool()
    pool.register()
    pool.warm(tools="t")
    pool.started(1)
    pool.opened(2)
    assert pool.claim(tools="t", resume="session a") == ["open 3 on #1 t for session a"]
    assert pool.claim(tools="t")[0] == "grant c2 lease 4 on #1 parked none"
    assert pool.opened(3) == ["grant c1 lease 5 on #1 warm first_use"]


def test_claims_that_resume_the_same_get_a_seat_each_and_teach_nothing() -> None:
    pool = Pool(reserve=ReserveRule(most=4))
    pool.register()
    pool.claim(resume="session a")
    pool.claim(resume="session a", owner="bob")
    assert pool.started(1) == ["open 2 on #1 for session a", "open 3 on #1 for session a"]
    assert pool.opened(3) == ["grant c2 lease 4 on #1 cold starting"]
    assert pool.opened(2) == ["grant c1 lease 5 on #1 cold no_process"]
    for lease in (4, 5):
        pool.release(lease)
    pool.tick(5.0)
    assert pool.core.snapshot().keys[0].lines == ()
