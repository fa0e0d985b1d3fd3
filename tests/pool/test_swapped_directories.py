"""A working directory that is swapped for a link after it was checked: nothing starts, opens or is asked there."""

import asyncio
import gc
import json
from pathlib import Path

import pytest

from ostler.pool import AgentStartFailed, BadDirectory
from ostler.process.folder import Descriptor, Folder, MovedElsewhere
from ostler.process.probe import BlockingProbe
from tests.support.pools import PoolHarness, open_pool_harness, say
from tests.support.witness import open_files


def swap(folder: Path, outside: Path) -> None:
    """What an agent of another session may do to a directory that both can write."""
    outside.mkdir(exist_ok=True)
    folder.rename(folder.with_name("moved"))
    folder.symlink_to(outside)


def swap_back(folder: Path) -> None:
    folder.unlink()
    folder.with_name("moved").rename(folder)


def make_anew(folder: Path) -> None:
    folder.rmdir()
    folder.mkdir()


def leads_to(path: str) -> Path:
    return Path(path).resolve()


def files() -> int:
    gc.collect()  # what was opened in vain is held by the error that said so
    return len(open_files())


async def test_n38_all_who_look_at_once_are_told_the_same(tmp_path: Path) -> None:
    work = tmp_path / "work"
    work.mkdir()
    before = files()
    with Folder(work, BlockingProbe()) as folder:
        await asyncio.gather(*(folder.confirm() for _ in range(3)))
        assert folder.is_in_place()
        swap(work, tmp_path / "outside")
        refused = await asyncio.gather(*(folder.confirm() for _ in range(3)), return_exceptions=True)
        assert {type(one) for one in refused} == {MovedElsewhere}
        swap_back(work)
        await asyncio.gather(*(folder.confirm() for _ in range(3)))
        assert folder.is_in_place()
    del refused
    assert files() == before


def heard(harness: PoolHarness, method: str) -> int:
    lines = [json.loads(line) for line in harness.record.read_text().splitlines()]
    return sum(line.get("frame", {}).get("method") == method for line in lines if line["event"] == "in")


async def test_n38_a_process_is_not_started_where_the_name_of_its_directory_leads_by_then(tmp_path: Path) -> None:
    async with open_pool_harness(tmp_path, fallback=False) as harness:
        key, outside = harness.key(), tmp_path / "outside"
        await harness.pool.learn(key)
        swap(Path(key.cwd), outside)  # the directory was looked at a moment ago, and the answer is believed
        with pytest.raises((AgentStartFailed, BadDirectory), match="another directory now"):
            await harness.pool.lease(key)
        assert harness.starts() == []


async def test_n38_a_session_is_neither_opened_nor_asked_where_its_directory_was_swapped(tmp_path: Path) -> None:
    async with open_pool_harness(tmp_path) as harness:
        key, outside = harness.key(), tmp_path / "outside"
        async with await harness.pool.lease(key) as held:
            assert await say(held, "before") == "echo: before"
            swap(Path(key.cwd), outside)
            with pytest.raises(BadDirectory, match="another directory now"):
                await held.prompt("after")
            with pytest.raises((AgentStartFailed, BadDirectory), match="another directory now"):
                async with await harness.pool.lease(key, deadline=5.0) as other:
                    await other.prompt("after")
            assert heard(harness, "session/prompt") == 1
            # Back again: the session goes on as if nothing had been.
            swap_back(Path(key.cwd))
            assert await say(held, "again") == "echo: again"


async def test_n38_a_directory_that_was_made_anew_is_its_sessions_own_again(tmp_path: Path) -> None:
    async with open_pool_harness(tmp_path) as harness:
        key = harness.key()
        async with await harness.pool.lease(key) as held:
            make_anew(Path(key.cwd))
            assert await say(held, "anew") == "echo: anew"


async def test_n38_an_open_directory_is_told_from_what_its_name_leads_to(tmp_path: Path) -> None:
    work, outside = tmp_path / "work", tmp_path / "outside"
    work.mkdir()
    before = files()
    with Folder(work, BlockingProbe()) as folder:
        assert not folder.is_in_place()
        await folder.confirm()
        assert folder.is_in_place()
        swap(work, outside)
        assert not folder.is_in_place()
        with pytest.raises(MovedElsewhere):
            await folder.confirm()
        assert leads_to(folder.descriptor.link) == tmp_path / "moved"
    assert files() == before


def test_n38_an_open_directory_that_nobody_took_is_closed(tmp_path: Path) -> None:
    before = files()
    Descriptor(str(tmp_path))
    with pytest.raises(FileNotFoundError):
        Descriptor(str(tmp_path / "none"))
    assert files() == before
