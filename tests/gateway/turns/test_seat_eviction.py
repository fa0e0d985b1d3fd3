"""Which seat between turns stands in the way of a turn: only where nothing else is about to help."""

from dataclasses import replace
from typing import Any

import pytest

from ostler.gateway.turns.seat_eviction import first_to_go
from ostler.pool.core import CoreSharing
from ostler.pool.core.census import KeyView, LeaseView, SlotView, Snapshot
from ostler.pool.core.values import LeaseId, PoolCensus, SlotId, SlotState
from tests.pool.core.driver import Pool

CENSUS = PoolCensus(
    processes=2,
    starting=0,
    ready=2,
    dying=0,
    max_processes=2,
    leased=2,
    parked=0,
    waiting=1,
    memory=0,
    memory_budget=None,
)
SLOT = SlotView(SlotId(1), SlotState.READY, 1, 1, 1, 1, 0, 0, 0, 1, 0, 1, 0, 0, None, shunned=False)


def slot(number: int, leased: int, **changes: Any) -> SlotView:
    return replace(SLOT, slot=SlotId(number), leased=leased, **changes)


def key(name: str, *slots: SlotView, waiting: int = 0, full: bool = False, **changes: Any) -> KeyView:
    facts = {"paused": False, "retry_in": 0.0, **changes}
    return KeyView(name, "demo", "f", facts["paused"], full, 1, waiting, 0, facts["retry_in"], "", slots, ())


def lease(number: int, of: str, on: int) -> LeaseView:
    return LeaseView(LeaseId(number), of, SlotId(on), None, "o", 1.0)


def seen(keys: list[KeyView], leases: list[LeaseView], **census: Any) -> Snapshot:
    numbers = replace(CENSUS, **census)
    return Snapshot(numbers, closed=False, paused=False, keys=tuple(keys), spares=(), leases=tuple(leases))


def test_a_seat_of_the_key_itself_goes_before_any_that_rested_longer() -> None:
    keys = [key("other", slot(1, 1)), key("full", slot(2, 1), slot(3, 1), waiting=1, full=True)]
    leases = [lease(1, "other", 1), lease(2, "full", 2), lease(3, "full", 3)]
    assert first_to_go(seen(keys, leases), [1, 3, 2]) == 3


def test_no_seat_of_another_key_goes_for_one_that_is_full() -> None:
    keys = [key("other", slot(1, 1)), key("full", slot(2, 1), waiting=1, full=True)]
    assert first_to_go(seen(keys, [lease(1, "other", 1), lease(2, "full", 2)]), [1]) is None


@pytest.mark.parametrize("change", [{"starting": 1}, {"dying": 1}, {"throttled": True}])
def test_what_comes_and_goes_elsewhere_helps_no_key_that_is_full(change: dict[str, Any]) -> None:
    keys = [key("other"), key("full", slot(2, 1), waiting=1, full=True)]
    assert first_to_go(seen(keys, [lease(2, "full", 2)], **change), [2]) == 2


def test_of_other_keys_the_process_that_the_fewest_would_lose_is_emptied_first() -> None:
    keys = [key("many", slot(1, 3)), key("few", slot(2, 2)), key("new", waiting=1)]
    leases = [lease(1, "many", 1), lease(2, "many", 1), lease(3, "many", 1), lease(4, "few", 2), lease(5, "few", 2)]
    assert first_to_go(seen(keys, leases), [1, 2, 4, 3, 5]) == 4
    rest = [key("many", slot(1, 3)), key("few", slot(2, 1)), key("new", waiting=1)]
    assert first_to_go(seen(rest, leases[:3] + leases[4:]), [1, 2, 3, 5]) == 5


@pytest.mark.parametrize("change", [{"leased": 2}, {"leased": 1, "opening": 1}])
def test_a_process_on_which_somebody_works_would_not_end(change: dict[str, int]) -> None:
    keys = [key("busy", replace(SLOT, **change)), key("new", waiting=1)]
    assert first_to_go(seen(keys, [lease(1, "busy", 1), lease(2, "busy", 1)]), [1]) is None


@pytest.mark.parametrize("change", [{"starting": 1}, {"dying": 1}, {"throttled": True}])
def test_where_somebody_comes_or_goes_nobody_is_in_the_way(change: dict[str, Any]) -> None:
    keys = [key("idle", slot(1, 1)), key("new", waiting=1)]
    assert first_to_go(seen(keys, [lease(1, "idle", 1)]), [1]) == 1
    assert first_to_go(seen(keys, [lease(1, "idle", 1)], **change), [1]) is None


@pytest.mark.parametrize(
    "change", [{"waiting": 0}, {"paused": True}, {"retry_in": 1.5}, {"opening": 1}, {"state": SlotState.STARTING}]
)
def test_who_does_not_wait_for_a_seat_is_in_nobodys_way(change: dict[str, Any]) -> None:
    slots = {name: change.pop(name) for name in ("opening", "state") if name in change}
    keys = [key("k", slot(1, 1), slot(2, 0, **slots), full=True, **{"waiting": 1, **change})]
    assert first_to_go(seen(keys, [lease(1, "k", 1)]), [1]) is None


def test_a_process_that_waits_for_its_last_turn_is_no_hope_for_who_waits() -> None:
    """A turn may take an hour, and a claim is refused after two minutes."""
    drains = slot(3, 1, state=SlotState.DRAINING)
    own = [key("full", drains, slot(2, 1), waiting=1, full=True)]
    leases = [lease(2, "full", 2), lease(3, "full", 3)]
    assert first_to_go(seen(own, leases, dying=1), [2]) == 2
    others = [key("idle", slot(1, 1)), key("drains", drains), key("new", waiting=1)]
    leases = [lease(1, "idle", 1), lease(3, "drains", 3)]
    assert first_to_go(seen(others, leases, dying=1), [1]) == 1
    assert first_to_go(seen(others, leases, dying=2), [1]) is None


@pytest.mark.parametrize("traits", [{}, {"sharing": CoreSharing.NONE, "seats_per_process": 1}])
def test_one_who_waits_costs_one_seat_however_long_its_agent_takes_to_close_it(traits: dict[str, Any]) -> None:
    pool = Pool(max_processes_per_key=3 if traits else 1)
    pool.register(**traits)
    resting = [pool.leased() for _ in range(3)]
    pool.claim()
    for waiting in (1, 2):
        going = first_to_go(pool.core.snapshot(), resting)
        assert going is not None
        pool.release(going)
        resting.remove(going)
        assert first_to_go(pool.core.snapshot(), resting) is None, f"{waiting} wait for {waiting} that close"
        pool.claim()


def test_a_seat_that_closes_where_nothing_is_opened_again_is_no_hope() -> None:
    spent = slot(3, 1, closing=1, shunned=True)
    keys = [key("full", spent, slot(2, 1), waiting=1, full=True)]
    leases = [lease(2, "full", 2), lease(3, "full", 3)]
    assert first_to_go(seen(keys, leases), [2]) == 2


def test_where_nobody_rests_nobody_goes() -> None:
    assert first_to_go(seen([key("k", slot(1, 1), waiting=1)], [lease(1, "k", 1)]), []) is None
    assert first_to_go(seen([key("k", waiting=1)], []), [7]) is None  # a seat the pool has just taken back
