"""Settings, traits, transition tables, sizing: the values under the decisions."""

import itertools
from collections.abc import Callable
from dataclasses import fields

import pytest

from bench.reserve import table
from ostler.pool.core import (
    CoreSharing,
    ImpossibleTransition,
    KeySpec,
    Limits,
    ReserveRule,
    SeatState,
    SettingsError,
    SlotState,
    Traits,
    events,
)
from ostler.pool.core.records import SEAT_MOVES, SLOT_MOVES, moved
from ostler.pool.core.sizing import Arrivals, seats_for
from tests.pool.core.driver import Pool, spec

SLOT_LIFE = """starting ready, starting closing, starting gone, ready draining, ready closing, ready gone,
draining closing, draining gone, closing gone"""
SEAT_LIFE = """opening parked, opening closing, opening gone, parked leased, parked closing, parked gone,
leased closing, leased gone, closing gone"""


@pytest.mark.parametrize(("before", "after"), list(itertools.product(SlotState, SlotState)))
def test_w13b_every_slot_transition(before: SlotState, after: SlotState) -> None:
    if f"{before.value} {after.value}" in SLOT_LIFE:
        assert moved(SLOT_MOVES, before, after) is after
    else:
        with pytest.raises(ImpossibleTransition, match=f"{before.value} -> {after.value}"):
            moved(SLOT_MOVES, before, after)


@pytest.mark.parametrize(("before", "after"), list(itertools.product(SeatState, SeatState)))
def test_w08_every_seat_transition(before: SeatState, after: SeatState) -> None:
    if f"{before.value} {after.value}" in SEAT_LIFE:
        assert moved(SEAT_MOVES, before, after) is after
    else:
        with pytest.raises(ImpossibleTransition):
            moved(SEAT_MOVES, before, after)


@pytest.mark.parametrize(
    "wrong",
    [
        lambda: Limits(max_processes=0),
        lambda: Limits(max_queue=-1),
        lambda: Limits(idle_after=0.0),
        lambda: Limits(memory_budget=0),
        lambda: Limits(memory_growth=1.0),
        lambda: Limits(age_jitter=1.0),
        lambda: ReserveRule(most=0),
        lambda: ReserveRule(miss_chance=1.0),
        lambda: Traits(seats_per_process=0),
        lambda: Traits(recycle_after_leaks=0),
        lambda: Traits(start_bytes=0),
        lambda: Traits(sharing=CoreSharing.NONE, seats_per_process=2),
        lambda: Traits(sharing=CoreSharing.PER_CWD, seats_per_process=2),
        lambda: KeySpec("p", "f", Traits(), max_processes=0),
        lambda: KeySpec("p", "f", Traits(), spares=1),
    ],
)
def test_w23d_w02_what_cannot_be_meant_is_refused(wrong: Callable[[], object]) -> None:
    with pytest.raises(SettingsError):
        wrong()


@pytest.mark.parametrize("wrong", [0, -1])
@pytest.mark.parametrize("limit", [item.name for item in fields(Limits) if item.name != "reserve"])
def test_w23d_no_limit_of_zero_or_less_means_unlimited(limit: str, wrong: int) -> None:
    with pytest.raises(SettingsError, match=limit):
        Limits(**{limit: wrong})


@pytest.mark.parametrize("limit", ["start_timeout", "idle_after", "max_age"])
def test_w16_limits_below_the_start_up_time_are_refused(limit: str) -> None:
    pool = Pool(**{limit: 10.0})
    with pytest.raises(SettingsError, match=limit):
        pool.do(events.KeyRegistered("k", spec(start_seconds=15.0)))
    assert not pool.core.knows("k")


def test_w25_a_burst_is_remembered_but_the_target_decays_to_nothing() -> None:
    arrivals = Arrivals(ReserveRule())
    assert arrivals.rate(0.0) == arrivals.target(0.0, 0.3) == 0
    for _ in range(10):
        arrivals.record(100.0, 0.3)
    assert arrivals.target(100.0, 0.3) == 10
    assert arrivals.target(200.0, 0.3) < 10
    assert arrivals.target(2 * 3600.0, 0.3) == 0
    arrivals.record(3 * 3600.0, 0.3)
    assert arrivals.target(3 * 3600.0, 0.3) >= 7


def test_a_reserve_lasts_for_one_refill() -> None:
    assert seats_for(0.0001, 0.002, 16) == 1
    assert seats_for(0.06, 0.002, 16) == 2
    assert seats_for(3.0, 0.002, 16) == 10
    assert seats_for(100.0, 0.002, 16) == 16


def test_the_learned_reserve_beats_the_formula() -> None:
    rows = {row.pattern: row for row in table()}
    assert all(row.learned.seats < row.formula.seats for row in rows.values())
    assert all(row.learned.misses <= row.equal.misses for row in rows.values())
    assert all(rows[name].learned.misses < rows[name].formula.misses for name in ("burst", "day"))


def test_recurring_traffic_keeps_a_process_and_its_end_lets_it_go() -> None:
    rule = ReserveRule(rate_half_life=60.0, keep_seconds=300.0)
    pool = Pool(reserve=rule, idle_after=30.0, sweep_every=5.0)
    pool.register()
    for _ in range(10):
        pool.release(pool.leased())
        for seat in list(pool.core.state.closing):
            pool.closed(seat)
        pool.opened(*pool.core.state.opening)
        pool.tick(20.0)
    assert "#1 ready" in pool.says()
    assert pool.tick(60.0) == []
    for _ in range(5):
        pool.tick(200.0)
    assert "ready" not in pool.says()
