"""Records of an agent in a real folder: which are moved, where to, and what stays where it is."""

import asyncio
import os
from dataclasses import dataclass
from pathlib import Path

import pytest

from ostler.pool.agent.record_archive import BESIDE, RecordArchive, put_away, take_back
from ostler.pool.provider import Records

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


def away(home: Path, session_id: str = MINE) -> list[str]:
    return put_away(home, RECORDS, session_id, lambda: True)


def back(home: Path, session_id: str = MINE) -> list[str]:
    return take_back(home, RECORDS, session_id)


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir()) if folder.exists() else []


def test_all_records_of_a_session_go_and_come_back_as_they_were(tmp_path: Path, desk: Path) -> None:
    record(desk, MINE, "17-33", "words")
    record(desk, MINE, "17-34")
    before = {name: (desk / name).read_bytes() for name in names(desk)}
    assert away(tmp_path) == []
    assert names(desk) == []
    desk.rmdir()
    assert back(tmp_path) == []
    assert {name: (desk / name).read_bytes() for name in names(desk)} == before


def test_others_stay_also_where_their_names_are_alike(tmp_path: Path, desk: Path) -> None:
    record(desk, ALIKE)
    record(desk, "ffffffff-other")
    (desk / "session-17-35-0a1b2c3d.jsonl.tmp").write_text(MINE)
    (desk / "session-17-36-0a1b2c3d.jsonl").mkdir()
    record(tmp_path / "elsewhere", MINE)
    (desk / "session-17-38-0a1b2c3d.jsonl").symlink_to(tmp_path / "elsewhere" / "session-17-33-0a1b2c3d.jsonl")
    os.mkfifo(desk / "session-17-37-0a1b2c3d.jsonl")
    before = names(desk)
    assert away(tmp_path) == []
    assert names(desk) == before


@pytest.mark.parametrize("odd", ["*", "[a-z]", "../../x", ""])
def test_an_id_is_no_pattern_and_no_path(tmp_path: Path, desk: Path, odd: str) -> None:
    record(desk, MINE)
    before = names(desk)
    assert away(tmp_path, odd) == []
    assert names(desk) == before


def test_nothing_is_overwritten_on_either_way_and_it_is_said(tmp_path: Path, desk: Path) -> None:
    shelf = desk.with_name(desk.name + BESIDE)
    whole, part = record(shelf, MINE, more="whole"), record(desk, MINE, more="part")
    for left, there in ((away(tmp_path), whole), (back(tmp_path), part)):
        assert left == [f"{there} is there already"]
    assert (whole.read_text()[-5:], part.read_text()[-4:]) == ("whole", "part")


def test_one_folder_that_cannot_be_used_leaves_the_others_theirs(tmp_path: Path, desk: Path) -> None:
    for project in ("a", "z"):
        odd = tmp_path / ".agent" / project / ("chats" + BESIDE)
        odd.parent.mkdir()
        odd.write_text("a file")
    record(desk, MINE)
    assert away(tmp_path) == []
    assert len(back(tmp_path)) == 2
    assert len(names(desk)) == 1


def test_only_the_owner_may_look_at_what_was_put_away(tmp_path: Path, desk: Path) -> None:
    record(desk, MINE)
    away(tmp_path)
    assert desk.with_name(desk.name + BESIDE).stat().st_mode & 0o777 == 0o700


def test_a_home_without_records_is_none_of_its_business(tmp_path: Path) -> None:
    assert (away(tmp_path), back(tmp_path / "gone")) == ([], [])


@dataclass(eq=False)
class Session:
    id: str = MINE


async def test_who_took_a_record_back_last_has_it_and_an_earlier_holder_that_ends_later_leaves_it(
    tmp_path: Path, desk: Path
) -> None:
    shelf, first, second = RecordArchive(RECORDS, str(tmp_path)), Session(), Session()
    record(desk, MINE)
    await shelf.take_back(second, 5.0)
    await shelf.put_away(first, 5.0)
    assert len(names(desk)) == 1
    await shelf.put_away(second, 5.0)
    assert names(desk) == []


def test_a_rename_that_was_held_up_asks_again_whether_it_is_wanted(tmp_path: Path, desk: Path) -> None:
    record(desk, MINE)
    assert put_away(tmp_path, RECORDS, MINE, lambda: False) == []
    assert len(names(desk)) == 1


async def test_ways_of_one_session_do_not_overtake_each_other(tmp_path: Path, desk: Path) -> None:
    shelf, session = RecordArchive(RECORDS, str(tmp_path)), Session()
    record(desk, MINE)
    for _ in range(20):
        async with asyncio.TaskGroup() as group:
            group.create_task(shelf.put_away(session, 5.0))
            group.create_task(shelf.take_back(session, 5.0))
        assert len(names(desk)) == 1


async def test_what_cannot_be_moved_is_told_in_the_log(
    tmp_path: Path, desk: Path, caplog: pytest.LogCaptureFixture
) -> None:
    record(desk, MINE)
    desk.with_name(desk.name + BESIDE).write_text("a file")
    await RecordArchive(RECORDS, str(tmp_path)).put_away(Session(), 5.0)
    assert "was not moved" in caplog.text
    assert len(names(desk)) == 1


async def test_a_home_that_cannot_be_looked_at_is_told_in_the_log_and_ends_nothing(
    caplog: pytest.LogCaptureFixture,
) -> None:
    await RecordArchive(RECORDS, "/" + "x" * 5000).take_back(Session(), 5.0)
    assert "was not moved: [Errno" in caplog.text


async def test_an_agent_that_reads_only_what_it_needs_keeps_its_records_where_they_are(tmp_path: Path) -> None:
    shelf = RecordArchive(None, str(tmp_path / "never made"))
    await shelf.put_away(Session(), 5.0)
    await shelf.take_back(Session(), 5.0)
