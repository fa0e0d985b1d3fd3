"""Processes and seats from ready to gone: death, drains, recycling, idleness, opens that fail."""

from dataclasses import fields

import pytest

from ostler.pool.core import CoreSharing, Limits, ReserveRule, SeatId, SlotId, events
from tests.pool.core.driver import Pool


def ready(**facts: object) -> Pool:
    """A pool with process #1, seat 2 and lease 3."""
    pool = Pool(**{name: facts.pop(name) for name in list(facts) if name in LIMITS})
    pool.register(**facts)
    assert pool.leased() == 3
    return pool


LIMITS = {item.name for item in fields(Limits)}


def test_w17_a_death_loses_each_lease_once_and_the_floor_is_restored() -> None:
    pool = ready()
    assert pool.warm() == ["open 4 on #1 t"]
    pool.opened(4)
    said = pool.do(events.SlotDied(SlotId(1), "pid 7 exit 139"))
    assert said == ["note slot_died died", "lost 3 died pid 7 exit 139", "stop #1 hard died", "start #5 k"]
    assert pool.do(events.SlotDied(SlotId(1), "again")) == ["note stale"]
    assert pool.release(3) == ["note stale"]
    assert pool.gone(1) == []


def test_w17_a_floor_is_restored_from_an_empty_pool() -> None:
    pool = ready(backoff_base=2.0)
    pool.warm()
    pool.opened(4)
    pool.do(events.SlotDied(SlotId(1), "x"))
    pool.gone(1)
    pool.failed(5)
    assert pool.says() == "k: - wait 0"
    assert [line for _ in range(9) for line in pool.tick(1.0)] == ["start #6 k"]
    assert pool.started(6) == ["open 7 on #6 t"]


def test_a_process_that_is_gone_without_a_word_has_died() -> None:
    assert ready().gone(1) == ["note slot_died died", "lost 3 died gone without a word", "stop #1 hard died"]


def test_a_process_that_dies_before_it_proved_itself_is_a_failed_start() -> None:
    pool = Pool()
    pool.register()
    pool.warm()
    pool.started(1)
    assert pool.do(events.SlotDied(SlotId(1), "x")) == [
        "note start_failed died",
        "note slot_died died",
        "stop #1 hard died",
    ]
    assert pool.gone(1) == []


def test_a_process_that_ended_with_its_session_has_not_died() -> None:
    pool = ready(seats_per_process=1, sharing=CoreSharing.NONE)
    pool.release(3)
    assert pool.do(events.SlotSpent(SlotId(1))) == ["note retired used_up", "stop #1 soft used_up"]
    assert pool.closed(2) == ["note stale"]
    assert (pool.gone(1), pool.core.snapshot().keys[0].failures) == ([], 0)


def test_a_spent_process_waits_for_no_successor() -> None:
    pool = ready(seats_per_process=1, sharing=CoreSharing.NONE)
    assert pool.claim() == ["start #4 k"]
    assert pool.do(events.Recycle(SlotId(1))) == ["note retired operator"]
    pool.release(3)
    assert pool.do(events.SlotSpent(SlotId(1))) == ["stop #1 soft operator"]


@pytest.mark.parametrize("event", [events.SlotDied(SlotId(1), "x"), events.SlotGone(SlotId(1))])
def test_a_process_that_dies_while_it_starts_is_a_failed_start(event: events.CoreEvent) -> None:
    pool = Pool()
    pool.register()
    pool.claim()
    assert pool.do(event)[0] == "note start_failed start_failed"


def test_w27a_another_fingerprint_drains_the_old_generation_and_serves_from_the_new() -> None:
    pool = ready()
    assert pool.register(fingerprint="g") == ["note retired fingerprint", "start #4 k"]
    assert pool.claim() == []
    assert pool.started(4) == ["move 3 fingerprint", "open 5 on #4"]
    assert pool.opened(5) == ["grant c2 lease 6 on #4 cold starting"]
    assert pool.release(3) == ["close 2", "stop #1 soft fingerprint"]


def test_another_fingerprint_stops_a_start_in_flight() -> None:
    pool = Pool()
    pool.register()
    pool.claim()
    assert pool.register(fingerprint="g") == ["stop #1 hard fingerprint", "start #2 k"]


def test_the_same_spec_changes_nothing_and_other_numbers_apply_at_once() -> None:
    pool = ready()
    assert pool.register() == []
    assert pool.register(seats_per_process=1) == []
    assert pool.claim() == ["start #4 k"]


def test_w15_age_replaces_before_it_retires_and_the_reserve_moves_first() -> None:
    pool = ready(max_age=100.0)
    pool.do(events.KeepWarm("k", "t", 1))
    pool.opened(4)
    assert pool.tick(100.0) == ["note retired age", "start #5 k"]
    assert pool.started(5) == ["open 6 on #5 t"]
    assert pool.opened(6) == ["close 4", "move 3 age"]


def test_age_has_jitter() -> None:
    pool = Pool(max_age=100.0)
    pool.register()
    pool.claim()
    pool.started(1, jitter=0.5)
    pool.opened(2)
    assert pool.tick(89.0) == []
    assert pool.tick(1.0) == ["note retired age", "start #4 k"]


def test_at_the_cap_the_old_one_drains_first() -> None:
    pool = ready(max_processes=1)
    assert pool.do(events.Recycle(SlotId(1))) == ["note retired operator", "move 3 operator"]
    assert pool.claim() == []
    pool.release(3)
    assert pool.gone(1) == ["start #4 k"]


def test_what_nobody_needs_is_retired_without_a_successor() -> None:
    pool = ready()
    pool.release(3)
    pool.closed(2)
    assert pool.do(events.Recycle(SlotId(1))) == ["note retired operator", "stop #1 soft operator"]


def test_an_empty_pool_asks_for_no_tick() -> None:
    assert Pool().core.handle(events.Tick(), 1.0) == []


@pytest.mark.parametrize(
    ("facts", "clean", "cause"),
    [
        ({"recycle_after_seats": 1}, True, "seats_served"),
        ({"recycle_after_leaks": 1}, False, "seats_leaked"),
        ({"recycle_after_leaks": 1, "can_close": False}, True, "seats_leaked"),
    ],
)
def test_m09_served_and_leaked_seats_recycle(facts: dict[str, object], clean: bool, cause: str) -> None:
    pool = ready(**facts)
    pool.leased(owner="bob")
    said = pool.release(3) + pool.closed(2, clean=clean)
    assert f"note retired {cause}" in said


def test_w02_an_unshared_process_ends_with_its_only_seat() -> None:
    pool = ready(sharing=CoreSharing.NONE, seats_per_process=1)
    assert pool.release(3) == ["close 2"]
    assert pool.closed(2) == ["note retired used_up", "stop #1 soft used_up"]


def test_w02_a_process_shared_per_cwd_serves_again_after_a_clean_close_only() -> None:
    pool = ready(sharing=CoreSharing.PER_CWD, seats_per_process=1)
    pool.release(3)
    pool.closed(2)
    assert pool.claim() == ["open 4 on #1"]
    pool.opened(4)
    pool.release(5)
    assert pool.closed(4, clean=False)[-1] == "stop #1 soft used_up"


def weighed(pool: Pool, slot: int, *sizes: int, own: int | None = None, sessions: int = 1) -> list[str]:
    """One look after the other; what the last one led to."""
    said: list[str] = []
    for size in sizes:
        assert said == [], "an earlier look led to this"
        said = pool.do(events.MemorySampled(SlotId(slot), size, size if own is None else own, sessions))
    return said


def test_memory_growth_over_its_own_baseline_recycles_with_a_pause_between() -> None:
    pool = ready()
    assert weighed(pool, 1, 100, 201, 201, 201) == ["note retired memory_growth", "start #4 k"]
    pool.started(4)
    assert weighed(pool, 4, 100, 500, 500, 500, 500) == []
    assert pool.tick(60.0) == []
    assert weighed(pool, 4, 500)[0] == "note retired memory_growth"


def test_a_weight_that_passes_is_no_growth() -> None:
    assert weighed(ready(), 1, 100, 500, 500, 200, 500, 500, 150) == []


def test_what_sessions_weigh_is_no_growth_and_what_comes_on_top_is() -> None:
    pool = ready()
    weighed(pool, 1, 100)
    assert weighed(pool, 1, 400, 400, 400, sessions=4) == []
    assert weighed(pool, 1, 160, 160, 160, 160) == []
    assert weighed(pool, 1, 201, 201, 201)[0] == "note retired memory_growth"


def test_a_share_that_grows_because_a_neighbour_ended_is_no_growth() -> None:
    pool = ready()
    weighed(pool, 1, 100, own=60)
    assert weighed(pool, 1, 300, 300, 300, own=61) == []
    assert weighed(pool, 1, 250, 250, 250, own=161)[0] == "note retired memory_growth"


def test_what_a_native_agent_takes_for_its_first_sessions_is_no_growth() -> None:
    pool = ready()
    weighed(pool, 1, 85, own=12)
    assert weighed(pool, 1, 167, 167, 167, own=59) == []
    assert weighed(pool, 1, 210, 210, 210, own=98)[0] == "note retired memory_growth"


def test_w31_a_ceiling_below_a_fresh_process_is_said_once_and_switched_off() -> None:
    pool = ready(memory_ceiling=50)
    assert pool.do(events.MemorySampled(SlotId(1), 100, 100, 1)) == ["note ceiling_too_low"]
    assert pool.do(events.MemorySampled(SlotId(1), 110, 110, 1), after=90.0) == []


def test_a_true_ceiling_recycles() -> None:
    pool = ready(memory_ceiling=150)
    pool.do(events.MemorySampled(SlotId(1), 100, 100, 1))
    assert pool.do(events.MemorySampled(SlotId(1), 160, 160, 1))[0] == "note retired memory_growth"


def test_w18b_who_answers_when_asked_stays_however_long_it_was_quiet() -> None:
    pool = ready(probe_misses=1, probe_every=5.0)
    for _ in range(100):
        assert pool.tick(5.0) == ["probe #1"]
        assert pool.do(events.ProbeAnswered(SlotId(1))) == []


def test_w18c_silence_while_others_answer_retires_and_alone_it_takes_twice_as_long() -> None:
    pool = ready(probe_misses=1, probe_every=5.0)
    assert pool.tick(5.0) == ["probe #1"]
    assert pool.do(events.ProbeMissed(SlotId(1))) == []
    assert pool.do(events.ProbeAnswered(SlotId(1))) == []
    pool.do(events.ProbeMissed(SlotId(1)))
    pool.register("other")
    pool.leased("other")
    assert pool.do(events.ProbeMissed(SlotId(1)))[0] == "note retired wedged"


def test_w38b_a_slow_open_moves_the_key_to_another_process() -> None:
    pool = ready(slow_open_after=5.0)
    assert pool.claim() == ["open 4 on #1"]
    assert pool.tick(5.0) == ["note retired slow_opens", "close 4", "start #5 k"]


def test_w38b_when_the_next_process_is_as_slow_the_machine_is_to_blame() -> None:
    pool = ready(slow_open_after=5.0, slow_open_spacing=7.0)
    assert pool.claim() == ["open 4 on #1"]
    assert pool.tick(5.0) == ["note retired slow_opens", "close 4", "start #5 k"]
    assert "open 6 on #5" in pool.started(5)
    assert pool.tick(5.0) == []
    assert pool.tick(2.0)[0] == "note retired slow_opens"


def test_w27b_a_drain_ends_at_its_deadline() -> None:
    pool = ready(drain_timeout=60.0)
    assert pool.do(events.DrainKey("k")) == ["move 3 operator", "start #4 k"]
    pool.started(4)
    assert pool.tick(59.0) == []
    assert pool.tick(1.0) == ["lost 3 drain_deadline drained for 60 s", "stop #1 soft drain_deadline"]


def test_a_stop_that_is_not_answered_is_said_again() -> None:
    pool = ready(stop_timeout=5.0)
    assert pool.do(events.Kill(SlotId(1))) == [
        "lost 3 operator killed by the operator",
        "stop #1 hard operator",
    ]
    assert pool.tick(5.0) == ["note stop_overdue", "stop #1 hard operator"]


def test_draining_a_key_stops_its_starts_too() -> None:
    pool = Pool()
    pool.register()
    assert pool.warm() == ["start #1 k"]
    assert pool.do(events.DrainKey("k"))[0] == "stop #1 soft operator"


def test_a_start_that_never_answers_fails() -> None:
    pool = Pool(start_timeout=10.0)
    pool.register()
    pool.claim()
    assert pool.tick(10.0)[-1] == "refuse c1 start_failed not ready after 10 s"


def test_w15_idle_counts_from_the_last_use_and_drains_to_zero() -> None:
    pool = ready(idle_after=100.0)
    pool.now += 90.0
    pool.release(3)
    pool.closed(2)
    assert pool.tick(90.0) == []
    assert pool.tick(10.0) == ["stop #1 soft idle"]
    pool.gone(1)
    assert pool.warm() == ["start #4 k"]


def test_w18a_no_idle_stop_beside_a_lease_or_below_the_floor() -> None:
    pool = ready(idle_after=10.0)
    assert pool.tick(50.0) == []
    pool.warm()
    pool.opened(4)
    pool.release(3)
    pool.closed(2)
    assert pool.tick(50.0) == []


def test_w18a_no_idle_stop_beside_a_waiter() -> None:
    pool = ready(idle_after=10.0)
    pool.do(events.Pause("k"))
    assert pool.claim(patience=500.0) == []
    pool.release(3)
    pool.closed(2)
    assert pool.tick(50.0) == []


def test_w16_w18a_no_idle_stop_of_a_process_that_starts() -> None:
    pool = Pool(idle_after=10.0, start_timeout=100.0)
    pool.register(start_seconds=5.0)
    assert pool.warm() == ["start #1 k"]
    assert [pool.tick(10.0) for _ in range(9)] == [[]] * 9
    assert pool.says() == "k: #1 starting 0 wait 0"


def test_w25_after_a_burst_and_a_long_quiet_the_reserve_is_back_at_the_floor() -> None:
    pool = ready(reserve=ReserveRule(most=4), seats_per_process=9, max_age=1e6)
    obey(pool, pool.warm())
    for _ in range(4):
        obey(pool, pool.claim(tools="t"))
    for lease in list(pool.core.state.leases):
        obey(pool, pool.release(lease))
    assert pool.core.census().parked > 1
    for _ in range(50):
        obey(pool, pool.tick(600.0))
    assert pool.core.census().parked == 1


def test_wm4_seats_in_use_are_no_surplus() -> None:
    pool = ready(seats_per_process=9)
    obey(pool, pool.warm())
    for _ in range(3):
        obey(pool, pool.claim(tools="t"))
    census = pool.core.census()
    assert (census.leased, census.parked) == (4, 1)
    assert pool.tick(1.0) == []


def obey(pool: Pool, said: list[str]) -> None:
    """The world does what the pool orders, until it orders nothing more."""
    while said:
        closed = [int(line.split()[1]) for line in said if line.startswith("close")]
        said = pool._answer(said) + [line for seat in closed for line in pool.closed(seat)]


def test_w25_a_seat_beyond_the_floor_is_closed_when_the_floor_is_taken_away() -> None:
    pool = ready()
    assert pool.warm() == ["open 4 on #1 t"]
    pool.opened(4)
    assert pool.warm(seats=0) + pool.tick(2.0) == ["close 4"]


def test_a_floor_is_taken_away_and_seats_that_cannot_be_closed_stay() -> None:
    pool = ready(can_close=False)
    pool.do(events.KeepWarm("k", "t", 1))
    pool.opened(4)
    assert pool.do(events.KeepWarm("k", "t", 0)) + pool.tick(2.0) == []


def test_a_broken_parked_seat_is_replaced_after_a_pause() -> None:
    pool = ready()
    pool.do(events.KeepWarm("k", "t", 1))
    pool.opened(4)
    assert pool.do(events.SeatBroken(SeatId(4))) == ["note seat_broken", "close 4"]
    assert pool.tick(2.0) == ["open 5 on #1 t"]


def test_n16_the_holder_of_a_seat_that_broke_is_told_to_move_and_its_process_serves_on() -> None:
    pool = ready()
    assert pool.do(events.SeatBroken(SeatId(2))) == ["note seat_broken", "move 3 tools_lost"]
    assert pool.release(3) == ["close 2"]
    assert pool.claim() == ["open 4 on #1"]


def test_a_failed_open_costs_one_claim_and_three_cost_the_process() -> None:
    pool = ready(open_failures=2)
    assert pool.claim() == ["open 4 on #1"]
    said = pool.do(events.SeatOpenFailed(SeatId(4), "no key"))
    assert said == ["note open_failed opens_fail", "close 4", "refuse c2 open_failed no key"]
    assert pool.claim() == ["open 5 on #1"]
    assert "note retired opens_fail" in pool.do(events.SeatOpenFailed(SeatId(5), "no key"))


def test_an_open_or_close_that_is_never_answered_ends() -> None:
    pool = Pool(open_timeout=5.0, slow_open_after=50.0, close_timeout=4.0)
    pool.register()
    pool.leased()
    pool.claim()
    assert pool.tick(5.0)[-1] == "refuse c2 open_failed no answer to the open for 5 s"
    assert pool.tick(4.0) == ["note seat_leaked"]


def test_memory_of_a_starting_process_never_counts_below_what_is_expected() -> None:
    pool = Pool()
    pool.register(start_bytes=100)
    pool.claim()
    pool.do(events.MemorySampled(SlotId(1), 10, 10, 1))
    assert pool.core.census().memory == 100


def test_an_unused_key_is_forgotten_with_its_lines() -> None:
    pool = ready(forget_after=1000.0, idle_after=10.0)
    pool.release(3)
    pool.closed(2)
    pool.tick(50.0)
    pool.gone(1)
    assert pool.tick(1000.0) == ["forget k"]
    assert not pool.core.knows("k")


def test_a_working_process_closes_the_breaker_even_if_nobody_opens_a_seat() -> None:
    pool = Pool(breaker_after=1, breaker_cooldown=5.0)
    pool.register()
    pool.claim()
    pool.failed(1)
    pool.now += 10.0
    pool.claim()
    pool.do(events.ClaimAbandoned("c2"))
    pool.started(2)
    assert pool.tick(11.0) == ["note breaker_closed"]
    pool.register("late")
    assert pool.tick(0.1) == []


def test_the_snapshot_tells_all_in_plain_data() -> None:
    pool = ready()
    pool.warm()
    (key,) = pool.core.snapshot().keys
    (slot,) = key.slots
    assert (slot.leased, slot.opening, slot.capacity) == (1, 1, 3)
    assert [(line.tools, line.target, line.opening) for line in key.lines] == [("", 0, 0), ("t", 1, 1)]
    assert pool.core.snapshot().leases[0].owner == "ann"
    assert pool.says() == "k: #1 ready 1+1o wait 0"


def test_a_tool_set_that_came_once_is_forgotten_long_before_one_that_came_in_a_crowd() -> None:
    pool = Pool(reserve=ReserveRule(), idle_after=60.0)
    pool.register(seats_per_process=99, most=1)
    pool.leased(tools="crowd")
    for number in range(50):
        pool.claim(tools=f"once {number}")
    for _ in range(5):
        pool.claim(tools="crowd")
    assert len(pool.core.snapshot().keys[0].lines) == 51
    for waiting in list(pool.core.state.claims):
        pool.do(events.ClaimAbandoned(waiting))
    for seat in list(pool.core.state.opening):
        pool.do(events.SeatOpened(seat))
    for _ in range(1200):
        for seat in list(pool.core.state.closing):
            pool.do(events.SeatClosed(seat, clean=True))
        pool.do(events.Tick(), after=1.0)
    assert [line.tools for line in pool.core.snapshot().keys[0].lines] == ["crowd"]


@pytest.mark.parametrize("can_close", [True, False])
def test_opens_that_are_overdue_together_end_together(can_close: bool) -> None:
    pool = Pool(open_timeout=5.0, slow_open_after=100.0, open_failures=1)
    pool.register(parallel_opens=3, can_close=can_close)
    pool.claim()
    pool.claim()
    pool.started(1)
    said = pool.tick(after=5.0)
    assert [line for line in said if line.startswith("close")] == ["close 2", "close 3"]
    assert pool.core.snapshot().census.waiting == 1
