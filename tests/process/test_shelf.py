"""Records of an agent in a real folder: which are moved, where to, and what stays where it is."""

import os
from pathlib import Path

import pytest

from ostler.pool.provider import Records
from ostler.pool.shelf import BESIDE, put_away, take_back

RECORDS = Records(".agent/*/chats", "session-*-{}.jsonl", 8)
MINE, ALIKE = "0a1b2c3d-mine", "0a1b2c3d-alike"


@pytest.fixture
def desk(tmp_path: Path) -> Path:
    """Where the agent keeps its records."""
    folder = tmp_path / ".agent" / "work" / "chats"
    folder.mkdir(parents=True)
    return folder


def record(folder: Path, session_id: str, begun: str = "17-33", more: str = "") -> Path:
    folder.mkdir(exist_ok=True)
    path = folder / f"session-{begun}-{session_id[:8]}.jsonl"
    path.write_text(f'{{"sessionId":"{session_id}"}}\n{more}')
    return path


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


def test_all_records_of_a_session_go_and_come_back_as_they_were(tmp_path: Path, desk: Path) -> None:
    record(desk, MINE, "17-33", "words")
    record(desk, MINE, "17-34")
    before = {name: (desk / name).read_bytes() for name in names(desk)}
    assert put_away(tmp_path, RECORDS, MINE) == 2
    assert names(desk) == []
    assert take_back(tmp_path, RECORDS, MINE) == 2
    assert {name: (desk / name).read_bytes() for name in names(desk)} == before
    assert take_back(tmp_path, RECORDS, MINE) == 0


def test_others_stay_also_where_their_names_are_alike(tmp_path: Path, desk: Path) -> None:
    record(desk, ALIKE)
    record(desk, "ffffffff-other")
    (desk / "session-17-35-0a1b2c3d.jsonl.tmp").write_text(MINE)
    (desk / "session-17-36-0a1b2c3d.jsonl").mkdir()
    record(tmp_path / "elsewhere", MINE)
    (desk / "session-17-38-0a1b2c3d.jsonl").symlink_to(tmp_path / "elsewhere" / "session-17-33-0a1b2c3d.jsonl")
    os.mkfifo(desk / "session-17-37-0a1b2c3d.jsonl")
    before = names(desk)
    assert put_away(tmp_path, RECORDS, MINE) == 0
    assert names(desk) == before


@pytest.mark.parametrize("odd", ["*", "[a-z]", "../../x", ""])
def test_an_id_is_no_pattern_and_no_path(tmp_path: Path, desk: Path, odd: str) -> None:
    record(desk, MINE)
    before = names(desk)
    assert put_away(tmp_path, RECORDS, odd) == 0
    assert names(desk) == before


def test_nothing_is_overwritten_on_either_way(tmp_path: Path, desk: Path) -> None:
    shelf = desk.with_name(desk.name + BESIDE)
    whole, part = record(shelf, MINE, more="whole"), record(desk, MINE, more="part")
    assert (put_away(tmp_path, RECORDS, MINE), take_back(tmp_path, RECORDS, MINE)) == (0, 0)
    assert (whole.read_text()[-5:], part.read_text()[-4:]) == ("whole", "part")


def test_only_the_owner_may_look_at_what_was_put_away(tmp_path: Path, desk: Path) -> None:
    record(desk, MINE)
    put_away(tmp_path, RECORDS, MINE)
    assert desk.with_name(desk.name + BESIDE).stat().st_mode & 0o777 == 0o700


def test_a_home_without_records_is_none_of_its_business(tmp_path: Path) -> None:
    assert (put_away(tmp_path, RECORDS, MINE), take_back(tmp_path / "gone", RECORDS, MINE)) == (0, 0)
