"""The file that is kept ready for the next announcement, and what happens where it is missing."""

import os
from pathlib import Path

import pytest

from ostler.process.ledger import Run, SpawnLedger, find_stale_runs, prepare, spare_of
from ostler.process.reaper.pipe_inodes import PipeInodes


@pytest.fixture
def ledger(tmp_path: Path) -> SpawnLedger:
    prepare(tmp_path / "run")
    return SpawnLedger.open(tmp_path / "run", Run.of_this_process("one"))


@pytest.fixture
def pipes() -> PipeInodes:
    return PipeInodes.of((0, 1, 2))


def test_an_announcement_takes_the_spare_and_says_the_same_without_one(ledger: SpawnLedger, pipes: PipeInodes) -> None:
    ledger.make_spare()
    ledger.announce(1, "agent", pipes)
    assert not spare_of(ledger.folder).exists()
    ledger.announce(2, "agent", pipes)
    first, second = ((ledger.folder / name).read_bytes() for name in ("1", "2"))
    assert first == second
    assert b'"agent"' in first


def test_a_spare_is_no_spawn_and_goes_with_its_ledger(ledger: SpawnLedger) -> None:
    ledger.make_spare()
    assert list(ledger.folder.iterdir()) == []
    ledger.close()
    assert not ledger.folder.exists()
    assert not spare_of(ledger.folder).exists()


def test_the_spare_of_a_dead_gateway_goes_with_its_estate(tmp_path: Path) -> None:
    runtime_dir, here = tmp_path / "run", Run.of_this_process("one")
    prepare(runtime_dir)
    gone = Run("dead", here.owner._replace(start=here.owner.start - 1), here.boot, here.namespace)
    SpawnLedger.open(runtime_dir, gone).make_spare()
    (stale_run,) = find_stale_runs(runtime_dir, here, 0.0)
    assert (stale_run.tracked, stale_run.pending) == ((), False)
    stale_run.clear()
    assert os.listdir(runtime_dir) == ["spawns"]  # noqa: PTH208 (names are all there is to compare)
    assert not any((runtime_dir / "spawns").iterdir())


def test_announcements_go_on_where_no_spare_can_be_made(ledger: SpawnLedger, pipes: PipeInodes) -> None:
    spare_of(ledger.folder).mkdir()
    ledger.make_spare()
    ledger.folder.rmdir()
    spare_of(ledger.folder).rmdir()
    ledger.announce(1, "agent", pipes)
    assert [file.name for file in ledger.folder.iterdir()] == ["1"]
