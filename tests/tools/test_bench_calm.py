"""A bench waits for a quiet machine, not for ever, and says both."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from itertools import chain, repeat

import pytest

from bench._calm import LOOK_EVERY, PATIENCE, wait_for_calm

CORES = 2


@dataclass
class Machine:
    """Its load at each look, and a clock that only sleeping moves."""

    loads: Iterator[float]
    now: float = 0.0
    said: list[str] = field(default_factory=list)

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def wait(self) -> None:
        wait_for_calm(CORES, lambda: next(self.loads), clock=lambda: self.now, sleep=self.sleep, say=self.said.append)


@pytest.mark.parametrize("load", [0.0, 0.9, 1.0])
def test_a_quiet_machine_is_not_waited_for_and_nothing_is_said(load: float) -> None:
    machine = Machine(repeat(load))
    machine.wait()
    assert (machine.now, machine.said) == (0.0, [])


def test_it_waits_until_the_load_has_fallen_and_no_longer() -> None:
    machine = Machine(chain([3.0, 2.0, 1.5, 1.1], repeat(1.0)))
    machine.wait()
    assert machine.now == 3 * LOOK_EVERY
    assert machine.said == ["load 3.0: waiting up to 90 s for it to fall to 1\n", "calm after 3 s\n"]


def test_a_machine_that_does_not_calm_down_is_measured_all_the_same() -> None:
    machine = Machine(repeat(2.5))
    machine.wait()
    assert PATIENCE <= machine.now <= PATIENCE + LOOK_EVERY
    assert machine.said[-1] == "load 2.5 after 90 s: measured all the same\n"
