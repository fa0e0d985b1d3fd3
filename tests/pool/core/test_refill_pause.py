"""A claimed parked seat is replaced after a pause, counted from the first that went; a waiter never waits for it."""

import pytest

from ostler.pool.core import KeySpec, Limits, PoolCore, SettingsError, Traits, actions, events
from ostler.pool.core.actions import Action

PAUSE = 0.25
SPEC = KeySpec("p", "f", Traits(seats_per_process=10, parallel_opens=10, refill_pause=PAUSE))


def opens(found: list[Action]) -> list[actions.OpenSeat]:
    return [action for action in found if isinstance(action, actions.OpenSeat)]


def warmed(floor: int) -> PoolCore:
    """A core with `floor` parked seats at time 1."""
    core = PoolCore(Limits(give_way=PAUSE / 10))  # the pause alone: no first answer is waited for
    core.handle(events.KeyRegistered("k", SPEC), 0.0)
    (start,) = [one for one in core.handle(events.KeepWarm("k", "", floor), 0.0) if isinstance(one, actions.StartSlot)]
    core.handle(events.SlotStarted(start.slot, 0.5), 0.1)
    for opened in opens(core.handle(events.Tick(), 0.9)):
        core.handle(events.SeatOpened(opened.seat), 1.0)
    assert core.census().parked == floor
    return core


def claim(number: int) -> events.Claim:
    return events.Claim(number, "k", "", "owner", 100.0, None, False)


def test_the_next_seat_is_opened_after_the_pause_and_not_before() -> None:
    core = warmed(2)
    assert opens(core.handle(claim(1), 2.0)) == []
    assert opens(core.handle(events.Tick(), 2.0 + PAUSE / 2)) == []
    assert len(opens(core.handle(events.Tick(), 2.0 + PAUSE))) == 1


def test_steady_claims_do_not_put_the_refill_off() -> None:
    core = warmed(3)
    core.handle(claim(1), 2.0)
    core.handle(claim(2), 2.0 + PAUSE * 0.9)
    assert len(opens(core.handle(events.Tick(), 2.0 + PAUSE))) == 2


def test_whoever_waits_is_served_without_the_pause() -> None:
    core = warmed(1)
    core.handle(claim(1), 2.0)
    assert len(opens(core.handle(claim(2), 2.01))) == 1


def test_the_pause_is_announced_as_an_alarm() -> None:
    core = warmed(1)
    wakes = [one.time for one in core.handle(claim(1), 2.0) if isinstance(one, actions.WakeAt)]
    assert wakes
    assert min(wakes) <= 2.0 + PAUSE


def test_a_pause_below_zero_is_refused() -> None:
    with pytest.raises(SettingsError):
        Traits(refill_pause=-1)
