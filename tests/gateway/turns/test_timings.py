"""What starts and stops each timer of a turn: the meaning of the numbers, nailed down (W47a)."""

import logging
from dataclasses import dataclass

import pytest

from ostler.gateway.turns.timings import EVENT, TurnTimings
from ostler.pool.lease import Waited


@dataclass
class Clock:
    now: float = 100.0

    def __call__(self) -> float:
        return self.now


def driven(*steps: tuple[float, str]) -> TurnTimings:
    """A turn whose marks come after so many seconds each."""
    clock = Clock()
    timings = TurnTimings(clock)
    marks = {
        "begin": timings.begin, "store": timings.store, "sit": timings.sit, "prompt": timings.prompt,
        "tool": timings.tool_called, "speak": timings.speak, "end": lambda: timings.report("s", "t"),
    }  # fmt: skip
    for wait, mark in steps:
        clock.now += wait
        marks[mark]()
    return timings


def test_w47a_each_timer_starts_and_stops_where_its_name_says() -> None:
    timings = driven(
        (1, "begin"), (2, "store"), (4, "sit"), (8, "prompt"), (16, "tool"), (32, "tool"), (64, "speak"), (128, "end")
    )
    timings.waited, timings.bridge = Waited(queue=0.5, spawn=2.5, session_new=1.0), 8.0
    assert timings.breakdown() == {
        "queue": 1.5,  # the session's earlier turns, and the pool's queue
        "store": 2.0,
        "spawn": 2.5,
        "session_new": 1.0,
        "bridge": 8.0,
        "first_tool": 16.0,  # the prompt to the first call; the second changes nothing
        "generation": 224.0,  # all that follows
        "first_token": 112.0,  # the prompt to the first text
        "total": 255.0,
    }


def test_g08_without_a_tool_the_whole_answer_is_generation() -> None:
    timings = driven((0, "begin"), (0, "store"), (0, "sit"), (0, "prompt"), (1, "speak"), (2, "end"))
    found = timings.breakdown()
    assert (found["first_tool"], found["generation"], found["first_token"]) == (0.0, 3.0, 1.0)


def test_w47a_a_turn_that_never_began_spent_its_time_in_the_queue() -> None:
    found = driven((5, "end")).breakdown()
    assert found == {**dict.fromkeys(found, 0.0), "queue": 5.0, "total": 5.0}


@pytest.mark.parametrize(("steps", "records"), [([(1.0, "end")], 0), ([(1.0, "prompt"), (1.0, "end")], 1)])
def test_g11_one_record_for_a_turn_that_reached_an_agent_and_none_for_another(
    steps: list[tuple[float, str]], records: int, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG, "ostler.turns"):
        driven(*steps)
    found = [record for record in caplog.records if record.getMessage() == EVENT]
    assert len(found) == records
    facts = [vars(record) for record in found]
    assert [(each["transport"], each["transport_from_pool"]) for each in facts] == [("pool", True)] * records
