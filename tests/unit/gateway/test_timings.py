"""What starts and stops each clock of a turn: golden numbers, so that their meaning cannot drift."""

import logging

import pytest

from ostler.gateway.sessions.timings import Timings
from ostler.pool.lease import Waited


class Clock:
    """Told what time it is."""

    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


def reported(timings: Timings, caplog: pytest.LogCaptureFixture) -> dict[str, object]:
    with caplog.at_level(logging.INFO, logger="ostler.turns"):
        timings.report("sess_a", "resp_b")
    (record,) = caplog.records
    facts: dict[str, object] = vars(record)["facts"]
    return facts


def test_w47a_every_number_of_a_turn_has_its_own_start_and_end(clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    timings = Timings(clock)
    timings.waited, timings.pooled, timings.warmth = Waited(queue=0.5, spawn=2.0, session_new=0.25), True, "cold"
    timings.bridge = 0.001
    timings.prompt()
    clock.now += 3.0
    timings.tool_called()
    clock.now += 1.0
    timings.tool_called()
    clock.now += 1.5
    assert reported(timings, caplog) == {
        "spawn": 2000.0,
        "bridge": 1.0,
        "session_new": 250.0,
        "first_tool": 3000.0,
        "generation": 2500.0,
        "transport": "pool",
        "transport_from_pool": True,
        "warmth": "cold",
        "session_id": "sess_a",
        "turn_id": "resp_b",
    }


def test_w47a_g08_a_turn_without_a_tool_has_no_first_tool(clock: Clock, caplog: pytest.LogCaptureFixture) -> None:
    timings = Timings(clock)
    timings.prompt()
    clock.now += 0.5
    facts = reported(timings, caplog)
    assert (facts["first_tool"], facts["generation"]) == (0.0, 500.0)


def test_w47a_a_turn_that_never_came_to_its_prompt_generated_nothing(
    clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    timings = Timings(clock)
    clock.now += 9.0
    facts = reported(timings, caplog)
    assert (facts["spawn"], facts["first_tool"], facts["generation"]) == (0.0, 0.0, 0.0)
