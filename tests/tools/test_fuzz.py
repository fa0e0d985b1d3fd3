"""A short walk of every target in each run of the suite; `make fuzz` is the long one."""

from random import Random

import pytest

from tools.fuzz.campaign import Campaign, Finding
from tools.fuzz.mutate import Mutator
from tools.fuzz.target import Target, load

TARGETS = load()


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_w36_w37b_w37c_mutated_frames_crash_nothing_and_leave_nothing(target: Target) -> None:
    frames = 150 if target.heavy else 3000
    assert Campaign(target, seed=2).run(frames=frames).frames == frames


@pytest.mark.parametrize("target", [each for each in TARGETS if each.found()], ids=lambda target: target.name)
def test_what_once_did_harm_does_none(target: Target) -> None:
    subject = target.begin(Random(1))
    try:
        for frame in target.found():
            subject.take(frame)
    finally:
        subject.end()


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_the_same_seed_walks_the_same_frames(target: Target) -> None:
    first, second = (Mutator(target.seeds(), Random(7)) for _ in range(2))
    assert [first.frame() for _ in range(200)] == [second.frame() for _ in range(200)]


class Leaky:
    """A subject with the very defects the campaign is there to find."""

    def __init__(self, *, fails_at: int) -> None:
        self.kept: list[bytes] = []
        self.fails_at = fails_at

    def take(self, frame: bytes) -> None:
        self.kept.append(frame * 10)
        if len(self.kept) == self.fails_at:
            raise KeyError("sessionUpdate")

    def end(self) -> None: ...


@pytest.mark.parametrize(("fails_at", "said"), [(300, "frame 300 of seed 1 raised KeyError"), (10**9, "more are held")])
def test_a_crash_and_a_leak_are_found(fails_at: int, said: str) -> None:
    target = Target("leaky", "wire", lambda rng: Leaky(fails_at=fails_at))
    with pytest.raises(Finding, match=said):
        Campaign(target, seed=1).run(frames=2000)
