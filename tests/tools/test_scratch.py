import os
from pathlib import Path

import pytest

from tests.support.scratch import ROOM, use_memory, will_do


def test_a_roomy_place_is_taken(tmp_path: Path) -> None:
    environment: dict[str, str] = {}
    use_memory(environment, tmp_path, room=1)
    assert environment == {"TMPDIR": str(tmp_path)}


@pytest.mark.parametrize(("place", "room"), [("missing", ROOM), (".", 1 << 62)])
def test_a_place_that_is_missing_or_small_is_left_alone(tmp_path: Path, place: str, room: int) -> None:
    environment: dict[str, str] = {}
    use_memory(environment, tmp_path / place, room=room)
    assert environment == {}


@pytest.mark.parametrize(("flag", "does"), [(os.ST_NOSUID, True), (os.ST_NOSUID | os.ST_NOEXEC, False)])
def test_where_nothing_may_be_executed_will_not_do(flag: int, does: bool) -> None:
    assert will_do(os.statvfs_result((4096, 4096, 9, 9, 9, 9, 9, 9, flag, 255)), room=9 * 4096) is does


def test_who_chose_a_place_keeps_it(tmp_path: Path) -> None:
    environment = {"TMPDIR": "/elsewhere"}
    use_memory(environment, tmp_path, room=1)
    assert environment == {"TMPDIR": "/elsewhere"}
