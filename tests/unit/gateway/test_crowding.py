"""Whether a seat between turns stands in the way of a turn: only where nothing else is about to help."""

from dataclasses import replace
from typing import Any

import pytest

from ostler.gateway.sessions.crowding import crowded
from ostler.pool.core.census import KeyView, SlotView, Snapshot
from ostler.pool.core.values import Census, SlotId, SlotState

CENSUS = Census(
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
SLOT = SlotView(SlotId(1), 1, SlotState.READY, 1, 1, 1, 1, 0, 0, 1, 0, 1, 0, None, 0, None, shunned=False)


def seen(census: Census = CENSUS, *slots: SlotView, **changes: Any) -> Snapshot:
    facts: dict[str, Any] = {"waiting": 1, "paused": False, "retry_in": 0.0, **changes}
    key = KeyView("k", "demo", "f", facts["paused"], 1, facts["waiting"], 0, facts["retry_in"], "", slots, ())
    return Snapshot(census, closed=False, paused=False, keys=(key,), spares=(), leases=())


def test_a_claim_that_nothing_but_a_resting_seat_holds_up() -> None:
    assert crowded(seen())
    assert crowded(seen(CENSUS, SLOT))
    assert crowded(seen(replace(CENSUS, processes=1), SLOT))  # its key may have no more, though the house may


@pytest.mark.parametrize("change", [{"waiting": 0}, {"starting": 1}, {"dying": 1}, {"throttled": True}])
def test_where_nobody_waits_or_somebody_comes_or_goes_nobody_is_in_the_way(change: dict[str, int]) -> None:
    assert not crowded(seen(replace(CENSUS, **change)))


def test_a_seat_that_opens_or_a_process_that_starts_is_waited_for() -> None:
    assert not crowded(seen(CENSUS, replace(SLOT, opening=1)))
    assert not crowded(seen(CENSUS, replace(SLOT, state=SlotState.STARTING)))
    assert not crowded(seen(CENSUS, paused=True))
    assert not crowded(seen(CENSUS, waiting=0))
    assert not crowded(seen(CENSUS, retry_in=1.5))
