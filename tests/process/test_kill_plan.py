"""The end of a family, step by step."""

import signal

from ostler.process.reaper.kill_plan import KillPlan
from ostler.process.reaper.proc import Stat

ONE = Stat(1, 0, 1, 5, dead=False)
TWO = Stat(2, 0, 1, 6, dead=False)


def test_each_is_terminated_once_then_killed_until_gone() -> None:
    plan = KillPlan(0.0, grace=1.0, bound=1.0)
    assert plan.next_orders([ONE], 0.0) == ([(ONE, signal.SIGTERM)], False)
    assert plan.next_orders([ONE, TWO], 0.5) == ([(TWO, signal.SIGTERM)], False)
    assert plan.next_orders([ONE, TWO], 1.0) == ([(ONE, signal.SIGKILL), (TWO, signal.SIGKILL)], False)
    assert plan.next_orders([TWO], 1.1) == ([(TWO, signal.SIGKILL)], False)
    assert plan.next_orders([], 1.2) == ([], False)
    assert plan.next_orders([], 1.3) == ([], True)


def test_the_unkillable_are_given_up_in_time() -> None:
    plan = KillPlan(0.0, grace=1.0, bound=1.0)
    assert plan.next_orders([ONE], 2.0) == ([], True)


def test_the_dead_are_nobody() -> None:
    plan = KillPlan(0.0, grace=1.0, bound=1.0)
    assert [plan.next_orders([ONE._replace(dead=True)], now) for now in (0.0, 0.1)] == [([], False), ([], True)]


def test_w30d_who_forked_behind_a_looks_back_is_found_by_the_next() -> None:
    plan = KillPlan(0.0, grace=1.0, bound=1.0)
    assert plan.next_orders([], 0.0) == ([], False)
    assert plan.next_orders([TWO], 0.1) == ([(TWO, signal.SIGTERM)], False)
    assert plan.next_orders([], 0.2) == ([], False)
    assert plan.next_orders([], 0.3) == ([], True)


def test_a_start_in_flight_is_waited_for() -> None:
    plan = KillPlan(0.0, grace=1.0, bound=1.0, linger=0.5)
    assert plan.next_orders([], 0.4) == ([], False)
    assert plan.next_orders([ONE], 0.45) == ([(ONE, signal.SIGTERM)], False)
    assert plan.next_orders([], 0.5) == ([], False)
    assert plan.next_orders([], 0.6) == ([], True)
