"""Other limits while the pool runs, and keys that are to be kept warm no more."""

import pytest

from ostler.pool.core import CoreSharing, Limits, ReserveRule, SettingsError, SlotId, events
from ostler.pool.core.client_events import MAX_TOOL_SETS
from tests.pool.core.driver import QUIET, Pool


def limits(**changed: object) -> events.LimitsChanged:
    """The driver's own limits, but for these."""
    return events.LimitsChanged(Limits(**({"reserve": QUIET, "sweep_every": 1.0, "probe_every": None} | changed)))


def test_raised_limits_serve_those_who_wait() -> None:
    pool = Pool(max_processes_per_key=1)
    pool.register(seats_per_process=1)
    pool.leased()
    assert pool.claim() == []
    assert pool.do(limits(max_processes_per_key=2)) == ["start #4 k"]


def test_over_a_lowered_cap_what_nobody_has_ends_and_no_lease_is_cut() -> None:
    pool = Pool(max_processes=3)
    for key in ("a", "b", "c"):
        pool.register(key, seats_per_process=1)
    first, second = pool.leased("a"), pool.leased("b")
    assert pool.do(limits(max_processes=1)) == []
    assert pool.tick() == []
    assert pool.release(second) == ["close 5"]
    assert pool.closed(5) == []
    assert pool.tick() == ["stop #4 soft surplus"]
    assert pool.gone(4) == []
    assert pool.release(first) == ["close 2"]
    assert pool.closed(2) == []
    assert pool.tick() == []
    assert pool.says() == "a: #1 ready 0 wait 0 | b: - wait 0 | c: - wait 0"


def test_over_a_lowered_cap_of_the_key_what_nobody_has_ends() -> None:
    pool = Pool(max_processes_per_key=2)
    pool.register(seats_per_process=1)
    pool.leased()
    other = pool.leased()
    pool.do(limits(max_processes_per_key=1))
    pool.release(other)
    assert pool.tick() == ["stop #4 soft surplus"]


def test_a_lowered_cap_refuses_more_starts() -> None:
    pool = Pool(max_processes=3)
    pool.register()
    pool.do(limits(max_processes=1))
    pool.leased()
    pool.register("other")
    assert pool.claim("other") == []


def test_limits_that_a_key_could_not_start_under_change_nothing() -> None:
    pool = Pool()
    pool.register(start_seconds=5.0)
    before = pool.core.state.limits
    with pytest.raises(SettingsError, match="start_timeout"):
        pool.do(limits(start_timeout=1.0))
    assert pool.core.state.limits is before


def test_another_reserve_rule_judges_what_was_seen_already() -> None:
    pool = Pool(reserve=ReserveRule(most=1))
    pool.register(seats_per_process=9)
    for _ in range(4):
        pool.leased()
    (key,) = pool.core.snapshot().keys
    assert [line.target for line in key.lines] == [1]
    pool.do(limits(reserve=ReserveRule(most=4)))
    (key,) = pool.core.snapshot().keys
    assert [line.target for line in key.lines] == [2]


def test_w31_another_ceiling_is_judged_anew() -> None:
    pool = Pool(memory_ceiling=100)
    pool.register()
    pool.warm()
    pool.started(1)
    assert pool.do(events.MemorySampled(SlotId(1), 150, 150, 1)) == ["note ceiling_too_low"]
    assert pool.do(events.MemorySampled(SlotId(1), 151, 151, 1)) == []
    pool.do(limits(memory_ceiling=140))
    assert pool.do(events.MemorySampled(SlotId(1), 151, 151, 1)) == ["note retired memory_growth", "start #3 k"]


def test_a_cooled_key_ends_and_stays_down_until_somebody_asks() -> None:
    pool = Pool(reserve=ReserveRule(most=1))
    pool.register()
    lease = pool.leased()
    pool.do(events.KeepWarm("k", "", 1))
    said = pool.do(events.StopWarming("k"))
    assert f"move {lease} operator" in said
    assert not [line for line in said if line.startswith(("start", "open"))]
    assert pool.release(lease)[-1] == "stop #1 soft operator"
    assert pool.gone(1) == []
    assert pool.tick(5.0) == []
    assert pool.claim() == ["start #5 k"]


def test_a_cooled_key_is_warmed_again_by_an_order() -> None:
    pool = Pool()
    pool.register()
    pool.do(events.StopWarming("k"))
    assert pool.do(events.KeepWarm("k", "", 0)) == []
    assert pool.do(events.KeepWarm("k", "", 1)) == ["start #1 k"]


def test_a_seat_that_the_budget_takes_makes_a_place_for_those_who_wait_for_a_start() -> None:
    pool = Pool(memory_budget=400)
    pool.register("a", seats_per_process=1, start_bytes=100, seat_bytes=5, can_close=False)
    pool.register("b", start_bytes=100, seat_bytes=5)
    pool.do(events.KeepWarm("a", "t", 1))
    pool.started(1)
    pool.opened(2)
    pool.leased("b")
    slot = next(iter(pool.core.state.keys["b"].slots))
    assert pool.claim("a", tools="u") == ["start #6 a"]
    said = pool.do(events.MemorySampled(slot, 250, 250, 1))
    assert said == ["note over_budget", "close 2", "note seat_leaked", "open 7 on #1 u"]


def test_a_process_of_one_seat_that_the_budget_takes_makes_way() -> None:
    pool = Pool(memory_budget=400, max_processes_per_key=1)
    one_seat = {"seats_per_process": 1, "sharing": CoreSharing.NONE}
    pool.register("a", start_bytes=100, seat_bytes=5, can_close=False, **one_seat)
    pool.register("b", start_bytes=100, seat_bytes=5)
    pool.do(events.KeepWarm("a", "t", 1))
    pool.started(1)
    pool.opened(2)
    pool.leased("b")
    slot = next(iter(pool.core.state.keys["b"].slots))
    said = pool.do(events.MemorySampled(slot, 303, 303, 1))
    assert said == ["note over_budget", "close 2", "note seat_leaked", "note retired used_up", "stop #1 soft used_up"]


def test_tool_sets_that_came_and_went_are_forgotten_by_the_next_one_and_those_that_are_ordered_are_not() -> None:
    pool = Pool(max_processes=8)
    pool.register(seats_per_process=4)
    pool.do(events.KeepWarm("k", "ordered", 1))
    for number in range(2 * MAX_TOOL_SETS):
        pool.claim(tools=f"tools {number}")
        pool.do(events.ClaimAbandoned(f"c{pool.claims}"), after=1.0)
    lines = pool.core.state.keys["k"].queues
    assert len(lines) == MAX_TOOL_SETS
    assert ("ordered", None) in lines
    assert (f"tools {2 * MAX_TOOL_SETS - 1}", None) in lines
    assert ("tools 0", None) not in lines
