"""A bridge that must use a temporary place removes those that killed ones left there, and nothing else."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ostler.bridge.leftovers import SETTLED, remove_leftovers
from ostler.bridge.socket_path import LOCK, NAME

LISTENS = """
import sys
from pathlib import Path
from ostler.bridge.socket_path import listen
place = listen(Path("/" + "long" * 30), None)
print(place.path.parent, flush=True)
sys.stdin.read()
place.close()
"""


def listening(folder: Path) -> tuple["subprocess.Popen[str]", Path]:
    """A process with a socket in a temporary place below the folder."""
    environ = {**os.environ, "TMPDIR": str(folder)}
    made = subprocess.Popen([sys.executable, "-c", LISTENS], env=environ, stdin=-1, stdout=-1, text=True)
    assert made.stdout is not None
    return made, Path(made.stdout.readline().strip())


def names(place: Path) -> list[str]:
    """What lies there."""
    return sorted(each.name for each in place.iterdir())


def grow_old(place: Path) -> None:
    """As if it had been there for a while."""
    then = time.time() - 2 * SETTLED
    os.utime(place / LOCK, (then, then))


def test_the_next_start_removes_what_a_killed_one_left_and_spares_the_living(tmp_path: Path) -> None:
    killed, dead = listening(tmp_path)
    living, place = listening(tmp_path)
    with killed, living:
        killed.send_signal(signal.SIGKILL)
        assert killed.wait(300) == -signal.SIGKILL
        assert names(dead) == [LOCK, NAME]
        for each in (dead, place):
            grow_old(each)
        later, own = listening(tmp_path)
        with later:
            assert sorted(tmp_path.iterdir()) == sorted([place, own])
            assert names(place) == [LOCK, NAME]
            later.communicate("")
        living.communicate("")
    assert list(tmp_path.iterdir()) == []


def left(folder: Path, name: str = "ostler-abcd_123", also: str = "") -> Path:
    """A place whose process is gone."""
    place = folder / name
    place.mkdir(mode=0o700)
    for file in filter(None, (LOCK, NAME, also)):
        (place / file).touch()
    grow_old(place)
    return place


@pytest.fixture
def fresh(tmp_path: Path) -> Path:
    """The place of whoever looks."""
    made = tmp_path / "ostler-freshone"
    made.mkdir()
    return made


def test_only_what_can_be_nothing_else_is_removed(tmp_path: Path, fresh: Path) -> None:
    dead = left(tmp_path)
    young = left(tmp_path, "ostler-young_12")
    os.utime(young / LOCK)
    kept = [
        young,
        left(tmp_path, "ostler-with_mor", also="precious"),
        left(tmp_path, "ostler-othername"),
        left(tmp_path, "somebody-abcd_1"),
        fresh,
    ]
    (tmp_path / "ostler-locked_x").mkdir()
    elsewhere = left(tmp_path, "elsewhere")
    (tmp_path / "ostler-linked_x").symlink_to(elsewhere)
    remove_leftovers(fresh, LOCK, NAME)
    assert not dead.exists()
    assert all(place.exists() for place in kept)
    assert (tmp_path / "ostler-locked_x").exists()
    assert names(elsewhere) == [LOCK, NAME]
