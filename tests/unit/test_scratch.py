import os
import tempfile
from pathlib import Path

import pytest

from tests.support.scratch import ROOM, use_memory


@pytest.fixture
def nothing_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", "/elsewhere")  # so that what the test sets is taken back
    monkeypatch.delenv("TMPDIR")
    monkeypatch.setattr(tempfile, "tempdir", tempfile.tempdir)


@pytest.mark.usefixtures("nothing_chosen")
def test_a_roomy_place_is_taken_for_us_and_all_we_start(tmp_path: Path) -> None:
    use_memory(tmp_path, room=1)
    assert tempfile.gettempdir() == os.environ["TMPDIR"] == str(tmp_path)


@pytest.mark.usefixtures("nothing_chosen")
@pytest.mark.parametrize("room", [ROOM, 1 << 62])
def test_a_place_that_is_missing_or_small_is_left_alone(tmp_path: Path, room: int) -> None:
    use_memory(tmp_path / "missing" if room == ROOM else tmp_path, room=room)
    assert "TMPDIR" not in os.environ


def test_who_chose_a_place_keeps_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TMPDIR", "/elsewhere")
    use_memory(tmp_path, room=1)
    assert os.environ["TMPDIR"] == "/elsewhere"
