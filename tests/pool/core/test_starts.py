"""Starts, their failures, caps, spares and the memory budget."""

import pytest

from ostler.pool.core import SeatId, SlotId, events
from tests.pool.core.driver import Pool


def test_e09_w23e_a_failed_start_refuses_all_its_waiters_and_the_next_claim_tries_anew() -> None:
    pool = Pool()
    pool.register()
    pool.claim()
    pool.claim(owner="bob")
    assert pool.failed(1) == [
        "note start_failed start_failed",
        "stop #1 hard start_failed",
        "refuse c1 start_failed exit 1",
        "refuse c2 start_failed exit 1",
    ]
    assert pool.says() == "k: - wait 0"
    assert pool.claim() == ["start #2 k"]


def test_e18_w23e_the_second_failure_backs_off_and_the_breaker_fails_fast_and_half_opens() -> None:
    pool = Pool(breaker_after=3, backoff_base=2.0, breaker_cooldown=8.0)
    pool.register()
    for slot in (1, 2):
        assert pool.claim() == [f"start #{slot} k"]
        pool.failed(slot)
    assert pool.claim(patience=1.0) == ["refuse c3 breaker_open exit 1"]
    assert pool.claim() == []
    assert pool.tick(1.9) == []
    assert pool.tick(0.1) == ["start #3 k"]
    assert "note breaker_opened start_failed" in pool.failed(3)
    assert pool.claim() == ["refuse c5 breaker_open exit 1"]
    pool.now += 8.0
    assert pool.claim() == ["start #4 k"]
    pool.started(4)
    assert pool.opened(5) == ["note breaker_closed", "grant c6 lease 6 on #4 cold no_process"]


def test_w23e_a_shortage_of_this_machine_costs_a_short_pause_and_opens_no_breaker() -> None:
    pool = Pool(breaker_after=2, backoff_base=2.0, breaker_cooldown=8.0)
    pool.register()
    for slot in range(1, 9):
        assert pool.claim() == [f"start #{slot} k"]
        assert "note breaker_opened start_failed" not in pool.failed(slot, shortage=True)
        assert pool.claim(patience=1.0) == [f"refuse c{2 * slot} breaker_open exit 1"]
        pool.now += 2.0 if slot == 1 else 4.0
    assert pool.claim() == ["start #9 k"]
    assert pool.started(9) == ["open 10 on #9"]
    assert pool.opened(10) == ["grant c17 lease 11 on #9 cold no_process"]


def test_w23e_while_a_shortage_lasts_what_nobody_waits_for_backs_off() -> None:
    pool = Pool(backoff_base=0.5, backoff_cap=60.0)
    pool.register()
    said, starts = pool.warm(), 0
    for _ in range(600):
        if "start" in " ".join(said):
            starts += 1
            pool.failed(starts, shortage=True)
        said = pool.tick(1.0)
    assert 5 < starts < 20
    assert pool.claim() == [f"start #{starts + 1} k"]


def test_w23e_a_process_that_was_up_before_says_nothing_of_the_room_for_another_one() -> None:
    pool = Pool(backoff_base=0.5, backoff_cap=60.0)
    pool.register(seats_per_process=1)
    pool.leased()
    said, starts = pool.warm(), 0
    for _ in range(600):
        for line in said:
            if line.startswith("start #"):
                starts += 1
                pool.failed(int(line.split()[1].removeprefix("#")), shortage=True)
        said = pool.do(events.ProbeAnswered(SlotId(1))) + pool.tick(1.0)
    assert 5 < starts < 20


def test_w23e_a_process_that_came_up_since_ends_a_shortage() -> None:
    pool = Pool(backoff_base=2.0)
    pool.register()
    pool.claim()
    pool.failed(1, shortage=True)
    pool.now += 2.0
    assert pool.claim() == ["start #2 k"]
    pool.started(2)
    pool.opened(3)
    assert not pool.core.state.breakers


def test_w23e_a_shortage_of_long_ago_is_forgotten() -> None:
    pool = Pool(backoff_base=2.0, backoff_cap=10.0)
    pool.register()
    pool.claim()
    pool.failed(1, shortage=True)
    pool.tick(19.9)
    assert pool.core.state.breakers
    pool.tick(0.1)
    assert not pool.core.state.breakers


def test_w23e_all_that_wait_for_such_a_start_hear_of_a_shortage_at_once_and_nobody_else() -> None:
    pool = Pool(max_processes_per_key=1, max_starting_per_provider=1)
    pool.register("full", seats_per_process=1)
    pool.leased("full")
    for key in "abc":
        pool.register(key)
    pool.register("other", fingerprint="g")
    pool.claim("a")
    said = pool.failed(slot(pool, "a"), shortage=True)
    assert [line for line in said if line.startswith("refuse")] == ["refuse c2 start_failed exit 1"]
    assert [pool.claim(key) for key in ("full", "a", "b", "c")] == [[], [], [], []]
    pool.do(events.Pause("c"))
    pool.tick(0.5)
    assert pool.claim("other") == [], "one starts at a time"
    said = pool.failed(slot(pool, "a"), shortage=True)
    assert [line for line in said if line.startswith("refuse")] == [
        "refuse c4 start_failed exit 1",
        "refuse c5 breaker_open exit 1",
    ]


def slot(pool: Pool, key: str) -> int:
    """The process of this key that starts."""
    (found,) = pool.core.state.keys[key].slots
    return found


def test_w23e_a_shortage_of_a_floor_refuses_nobody() -> None:
    pool = Pool(max_starting_per_provider=1)
    pool.register("floor")
    pool.register()
    pool.warm("floor")
    assert pool.claim() == [], "one starts at a time"
    assert not [line for line in pool.failed(slot(pool, "floor"), shortage=True) if line.startswith("refuse")]
    assert [line for line in pool.tick(1.0) if "start" in line] == ["start #2 k"]


def test_w23e_a_shortage_of_a_spare_refuses_nobody() -> None:
    pool = Pool(max_starting_per_provider=1)
    pool.register("spared", spares=1, cwd_per_session=True)
    pool.register()
    pool.tick()
    (spare,) = pool.core.state.spares
    assert pool.claim() == [], "one starts at a time"
    assert not [line for line in pool.failed(spare, shortage=True) if line.startswith("refuse")]
    assert pool.claim("spared") == []


def test_w23e_a_shortage_does_not_shorten_the_cool_down_of_a_breaker() -> None:
    pool = Pool(breaker_after=1, backoff_base=2.0, breaker_cooldown=8.0)
    pool.register(seats_per_process=1)
    pool.claim()
    pool.claim()
    assert "note breaker_opened start_failed" in pool.failed(1)
    assert "note breaker_opened start_failed" not in pool.failed(2, shortage=True)
    pool.now += 7.9
    assert pool.claim() == ["refuse c3 breaker_open exit 1"]
    pool.now += 0.1
    assert pool.claim() == ["start #3 k"]


def test_reconnect_forgets_the_failures() -> None:
    pool = Pool(breaker_after=1)
    pool.register()
    pool.claim()
    pool.failed(1)
    assert pool.claim() == ["refuse c2 breaker_open exit 1"]
    pool.do(events.Reconnect("k"))
    assert pool.claim() == ["start #2 k"]


def test_a_floor_is_not_the_first_to_try_again() -> None:
    pool = Pool(breaker_cooldown=8.0)
    pool.register()
    assert pool.warm() == ["start #1 k"]
    pool.failed(1, retryable=False)
    assert pool.tick(7.0) == []
    assert pool.tick(1.0) == ["start #2 k"]


def test_a_partial_failure_refuses_only_those_whom_nothing_else_serves() -> None:
    pool = Pool()
    pool.register(seats_per_process=1)
    pool.claim()
    pool.claim()
    said = pool.failed(2)
    assert [line for line in said if line.startswith("refuse")] == ["refuse c1 start_failed exit 1"]
    assert pool.says() == "k: #1 starting 0 wait 1"


def test_w22_caps_count_reserved_live_and_dying() -> None:
    pool = Pool(max_processes=1)
    pool.register("a")
    pool.register("b")
    pool.claim("a")
    pool.do(events.Kill(SlotId(1)))
    assert pool.says() == "a: #1 closing 0 wait 1 | b: - wait 0"
    assert pool.claim("b") == []
    assert pool.gone(1) == ["start #2 a"]


def test_w24a_the_start_rate_is_capped_after_a_mass_death() -> None:
    pool = Pool(max_processes=20, max_starting=20, max_starting_per_provider=20, start_burst=2, starts_per_second=1.0)
    for key in "abcdef":
        pool.register(key)
        pool.now += 10.0
        pool.leased(key)
    pool.now += 10.0
    slots = list(pool.core.state.slots)
    assert len(slots) == 6
    said = [line for slot in slots for line in pool.do(events.SlotDied(slot, "exit 9")) + pool.gone(slot)]
    said += [line for key in "abcdef" for line in pool.claim(key)]
    assert sum(line.startswith("start") for line in said) == 2
    for _ in range(4):
        assert sum(line.startswith("start") for line in pool.tick(1.0)) == 1
    assert pool.tick(1.0) == []


@pytest.mark.parametrize("limit", ["max_starting", "max_starting_per_provider"])
def test_w24b_concurrent_starts_are_capped(limit: str) -> None:
    pool = Pool(**{limit: 1})
    pool.register("a")
    pool.register("b")
    assert pool.claim("a") == ["start #1 a"]
    assert pool.claim("b") == []
    assert "start #2 b" in pool.started(1)


def test_wm3_an_idle_process_makes_way_for_a_waiter_but_a_promised_one_does_not() -> None:
    pool = Pool(max_processes=1)
    pool.register("a")
    pool.register("b")
    lease = pool.leased("a")
    assert pool.claim("b") == []
    pool.claim("a")
    assert pool.release(lease) == ["close 2"]
    assert pool.opened(4) == ["grant c3 lease 5 on #1 warm reserve_empty"]
    assert pool.release(5) == ["close 4", "stop #1 soft evicted"]
    assert pool.gone(1) == ["start #6 b"]


def test_two_keys_with_one_place_do_not_evict_each_other_before_serving() -> None:
    pool = Pool(max_processes=1)
    pool.register("a")
    pool.register("b")
    pool.claim("a")
    pool.claim("b", owner="bob")
    assert pool.started(1) == ["open 2 on #1"]
    assert pool.opened(2) == ["grant c1 lease 3 on #1 cold no_process"]


def test_what_was_ordered_to_be_kept_is_evicted_last() -> None:
    pool = Pool(max_processes=2)
    for key in "abc":
        pool.register(key)
    assert pool.warm("a") == ["start #1 a"]
    pool.started(1)
    pool.opened(2)
    assert pool.leased("b") == 5
    pool.release(5)
    pool.closed(4)
    assert pool.claim("c") == ["stop #3 soft evicted"]
    assert pool.gone(3) == ["start #6 c"]


def test_parked_seats_of_other_tools_make_way_on_a_full_key() -> None:
    pool = Pool(max_processes=1)
    pool.register(seats_per_process=1)
    pool.warm()
    pool.started(1)
    pool.opened(2)
    assert pool.claim(tools="u") == ["close 2"]
    assert pool.closed(2) == ["open 3 on #1 u"]


def test_where_first_starts_get_in_each_others_way_the_second_is_ordered_when_the_first_is_up_or_gone() -> None:
    pool = Pool(start_timeout=60.0)
    for key in "abc":
        pool.register(key, fingerprint=key, first_start_alone=True, open_group="gem:/home")
    pool.register("d", fingerprint="d", first_start_alone=True, open_group="gem:/elsewhere")
    assert pool.claim("a") == ["start #1 a"]
    assert pool.claim("b", patience=200.0) == []
    assert pool.claim("d", patience=200.0) == ["start #2 d"], "in another HOME"
    assert "note start_failed start_failed" in pool.tick(60.0)
    assert pool.gone(1) == ["start #3 b"], "with the whole of its time before it"
    assert pool.claim("c", patience=200.0) == []
    assert pool.started(3, after=59.0) == ["start #4 c", "open 5 on #3"]
    assert pool.claim("a") == ["start #6 a"], "beside another one that starts"


def test_spares_are_adopted_and_made_anew() -> None:
    pool = Pool()
    assert pool.register("a", spares=1, cwd_per_session=True) == ["start #1 a spare"]
    pool.register("b", cwd_per_session=True)
    pool.started(1)
    assert pool.says() == "a: - wait 0 | b: - wait 0 | spare #1 ready 0"
    assert pool.claim("b") == ["adopt #1 b", "open 2 on #1"]
    assert pool.opened(2) == ["grant c1 lease 3 on #1 spare no_process"]
    assert pool.answered(3) == ["start #4 a spare"]


def test_a_spare_that_dies_or_is_no_longer_wanted_leaves_no_trace() -> None:
    pool = Pool()
    pool.register("a", spares=1, cwd_per_session=True)
    pool.started(1)
    assert pool.do(events.SlotDied(SlotId(1), "exit 9")) == [
        "note start_failed died",
        "note slot_died died",
        "stop #1 hard died",
    ]
    pool.gone(1)
    assert pool.tick(2.0) == ["start #2 a spare"]
    pool.started(2)
    pool.register("a", spares=0, cwd_per_session=True)
    assert "stop #2 soft surplus" in pool.tick()


def test_keys_that_ask_for_spares_are_forgotten_but_for_the_last_and_spares_of_models_with_them() -> None:
    pool = Pool(forget_after=100.0)
    for number, model in enumerate("mmn"):
        pool.tick(1.0)
        pool.register(f"k{number}", fingerprint=model, spares=1, cwd_per_session=True)
    pool.started(1)
    pool.started(2)
    assert pool.says() == "k0: - wait 0 | k1: - wait 0 | k2: - wait 0 | spare #1 ready 0 | spare #2 ready 0"
    assert pool.tick(100.0) == ["forget k0", "forget k1"]
    assert pool.tick(1.0) == ["stop #1 soft surplus"]
    pool.gone(1)
    assert pool.tick(1000.0) == []
    assert pool.says() == "k2: - wait 0 | spare #2 ready 0"
    pool.register("k3", fingerprint="m", spares=1, cwd_per_session=True)
    assert "forget k2" in pool.tick(1.0)


def test_a_key_that_is_cooled_asks_for_no_spares_until_somebody_asks_for_it() -> None:
    pool = Pool()
    pool.register("a", spares=1, cwd_per_session=True)
    pool.started(1)
    pool.do(events.StopWarming("a"))
    assert pool.tick(1.0) == ["stop #1 soft surplus"]
    assert pool.gone(1) == []
    assert pool.tick(1.0) == []
    pool.leased("a")
    assert pool.says() == "a: #2 ready 1 wait 0 | spare #5 starting 0"


def test_memory_decides_admission_and_what_it_bars_is_refused_with_a_reason() -> None:
    pool = Pool(memory_budget=150)
    pool.register("a", start_bytes=100)
    pool.register("b", start_bytes=100)
    pool.leased("a")
    assert pool.claim("b") == ["refuse c2 saturated a process more would exceed the memory budget"]


def test_over_budget_sheds_parked_then_idle_and_never_leased() -> None:
    pool = Pool(memory_budget=250)
    for key in "ab":
        pool.register(key, start_bytes=100, seat_bytes=10)
    lease = pool.leased("a")
    pool.release(pool.leased("b"))
    pool.do(events.KeepWarm("b", "t", 1))
    (seat,) = pool.core.state.opening
    pool.opened(seat)
    said = pool.do(events.MemorySampled(SlotId(1), 220, 220, 1))
    assert said == ["note over_budget", f"close {seat}", "stop #4 soft memory_budget"]
    assert lease in pool.core.state.leases
    assert "note over_budget" in pool.do(events.MemorySampled(SlotId(1), 300, 300, 1))
    assert pool.says().startswith("a: #1 ready 1")


def test_no_more_is_shed_than_is_needed() -> None:
    pool = Pool(memory_budget=250)
    pool.register("a", start_bytes=100, seat_bytes=10)
    pool.leased("a")
    pool.do(events.KeepWarm("a", "t", 2))
    pool.opened(4, 5)
    assert pool.do(events.MemorySampled(SlotId(1), 255, 255, 1)) == ["note over_budget", "close 4"]


def test_no_seat_is_opened_ahead_beyond_the_budget() -> None:
    pool = Pool(memory_budget=105)
    pool.register(start_bytes=100, seat_bytes=10)
    pool.leased()
    assert pool.do(events.KeepWarm("k", "t", 1)) == []


def test_m01_parallel_opens_are_counted_per_group() -> None:
    pool = Pool()
    for key in "ab":
        pool.register(key, open_group="home", parallel_opens=1)
    pool.claim("a")
    pool.claim("b")
    assert pool.started(1) == ["open 3 on #1"]
    assert pool.started(2) == []
    assert pool.opened(3) == ["grant c1 lease 4 on #1 cold no_process", "open 5 on #2"]


def test_m01_an_open_that_its_agent_has_answered_keeps_no_other_one_waiting() -> None:
    pool = Pool()
    pool.register(parallel_opens=1)
    for _ in range(3):
        pool.claim()
    assert pool.started(1) == ["open 2 on #1"]
    made = events.SeatMade(SeatId(2))
    assert pool.do(made) == ["open 3 on #1"]
    assert pool.do(made) == ["note stale"]
    assert pool.opened(2) == ["grant c1 lease 4 on #1 cold no_process"]
    assert pool.opened(3) == ["grant c2 lease 5 on #1 cold starting", "open 6 on #1"]


def owned(**limits: object) -> Pool:
    """A pool whose key `k` keeps one seat parked that ann's and bob's may take."""
    pool = Pool(**limits)
    pool.register("k")
    for name in ("ann", "bob"):
        pool.register(name, reserve="k")
    pool.warm("k")
    pool.started(1)
    pool.opened(2)
    return pool


def test_n29_a_parked_seat_of_the_reserve_is_taken_with_its_process_which_serves_nobody_else() -> None:
    pool = owned()
    assert pool.claim("ann", "t") == ["adopt #1 ann", "grant c1 lease 3 on #1 parked none"]
    assert pool.answered(3) == ["start #4 k"]
    assert pool.claim("ann", "t") == ["open 5 on #1 t"]
    assert pool.claim("bob", "t") == ["adopt #4 bob"]
    assert pool.started(4) == ["open 6 on #4 t"]


def test_a_key_that_took_over_a_process_is_remembered_as_one_that_came_up() -> None:
    pool = owned(backoff_cap=30.0, forget_after=3600.0)
    pool.claim("ann", "t")
    pool.release(3)
    pool.do(events.DrainKey("ann"))
    for _ in range(10):
        pool.tick(60.0)
    assert pool.core.state.keys["ann"].came_up


def test_n29_a_process_that_somebody_has_used_is_never_taken_from_the_reserve() -> None:
    pool = owned(max_processes=1)
    assert pool.claim("k", "t") == ["grant c1 lease 3 on #1 parked none"]
    assert pool.answered(3) == ["open 4 on #1 t"]
    pool.opened(4)
    pool.release(3)
    assert "adopt #1 ann" not in pool.claim("ann", "t")


def test_n29_a_process_of_the_reserve_that_can_open_nothing_for_the_waiter_stays() -> None:
    pool = Pool()
    pool.register("k", seats_per_process=1)
    pool.register("ann", reserve="k", seats_per_process=1)
    pool.warm("k", "t")
    pool.started(1)
    pool.opened(2)
    assert pool.claim("ann", "other") == ["start #3 ann"]
