"""Whether an upset took hold is seen, not assumed: the parts that look can tell nothing from something."""

import random
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import psutil
import pytest

from tests.support.tally import Tally
from tools.faults.blows import asleep, is_stopped, kill_one
from tools.faults.clock import WallClock
from tools.faults.gate import Gate
from tools.faults.scene import Scene
from tools.faults.sockets import waiting
from tools.faults.upsets import UPSETS, expect_all, without_effect

ROWS = (
    "   0: 00000000:22C3 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1 1 0",
    "   1: 0100007F:22C3 0100007F:C6CC 01 001B3163:00000000 04:00000000 00000000     0        0 2 1 0",
    "   2: 0100007F:C6CC 0100007F:22C3 01 00000007:00001000 00:00000000 00000000     0        0 3 1 0",
)


def scene_in(folder: Path) -> Scene:
    return Scene(folder, Tally("x", 1, 0.0), random.Random(1), WallClock(folder), Gate({}), False, False)


def test_bytes_that_wait_are_those_of_our_side() -> None:
    assert waiting(ROWS, 0x22C3) == {0: 0, 0xC6CC: 0x1B3163}


@pytest.fixture
def victim() -> Iterator[psutil.Process]:
    """Somebody who lives until he is killed."""
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        yield psutil.Process(process.pid)


async def test_a_blow_at_nobody_or_at_somebody_dead_did_nothing(tmp_path: Path, victim: psutil.Process) -> None:
    scene = scene_in(tmp_path)
    assert await asleep(scene, [victim], 0.3)
    assert not is_stopped(victim)
    assert await kill_one(scene, [victim])
    assert not await kill_one(scene, [victim])
    assert not await asleep(scene, [victim], 0.3)
    assert not await kill_one(scene, [])
    assert not await asleep(scene, [], 0.3)
    assert scene.tally.broken == []


def test_a_kind_that_never_took_hold_is_a_break_and_one_that_was_left_out_is_none(tmp_path: Path) -> None:
    scene = scene_in(tmp_path)
    scene.tally.counts.update({f"took hold: {name}": 1 for name in UPSETS})
    del scene.tally.counts["took hold: disk full"], scene.tally.counts["took hold: clock jump"]
    scene.tally.counts["upset: clock jump"] = 3
    scene.tally.left_out["disk full"] = "no disk"
    assert without_effect(scene) == ["clock jump"]
    expect_all(scene)
    assert scene.tally.broken == ["the upset did nothing, in 3 tries: clock jump"]
