"""A look at the disk never keeps the loop, and the loop never waits longer for it than it was asked to."""

import asyncio
import threading
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ostler.pool.errors import BadDirectory
from ostler.pool.launch.directories import FRESH, Directories
from ostler.process.probe import LOOKS
from tests.support.waiting import eventually


class Disk:
    """A disk that answers when the test lets it."""

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.threads: set[int] = set()
        self.lives = threading.Event()
        self.names: dict[str, str] = {}

    def look(self, path: str) -> str:
        self.asked.append(path)
        self.threads.add(threading.get_ident())
        self.lives.wait(20)
        if path not in self.names:
            raise BadDirectory(path, "it is not there")
        return self.names[path]


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
async def disk() -> AsyncIterator[Disk]:
    disk = Disk()
    disk.names["/link"] = "/real"
    disk.lives.set()
    yield disk
    disk.lives.set()


async def test_what_was_found_is_known_at_once(disk: Disk) -> None:
    directories = Directories(disk.look, Clock())
    assert directories.recall("/link") is None
    assert await directories.find("/link") == "/real"
    assert directories.recall("/link") == "/real"
    assert await directories.find("/link") == "/real"
    assert disk.asked == ["/link"]
    assert threading.get_ident() not in disk.threads


async def test_all_who_ask_for_one_path_share_one_look_and_its_verdict(disk: Disk) -> None:
    directories = Directories(disk.look, Clock())
    disk.lives.clear()
    asking = [asyncio.create_task(directories.find(path)) for path in ("/link", "/link", "/none", "/none")]
    await eventually(lambda: len(disk.asked) == 2)
    asking[0].cancel()
    disk.lives.set()
    found = await asyncio.gather(*asking, return_exceptions=True)
    assert isinstance(found[0], asyncio.CancelledError)
    assert found[1] == "/real"
    assert [str(one) for one in found[2:]] == ["working directory '/none' cannot be used: it is not there"] * 2
    assert found[2] is not found[3]
    assert sorted(disk.asked) == ["/link", "/none"]


async def test_a_dead_disk_costs_a_claim_its_patience_and_nobody_else_anything(disk: Disk) -> None:
    directories = Directories(disk.look, Clock())
    assert await directories.find("/link") == "/real"
    disk.lives.clear()
    with pytest.raises(BadDirectory, match=r"did not answer within 0\.01 s"):
        await directories.find("/dead", 0.01)
    assert await directories.find("/link") == "/real"
    for number in range(1, LOOKS):
        with pytest.raises(BadDirectory, match="did not answer"):
            await directories.find(f"/dead-{number}", 0.001)
    with pytest.raises(BadDirectory, match="have not come back"):
        await directories.find("/one-too-many", 0.01)
    assert "/one-too-many" not in disk.asked
    disk.lives.set()
    disk.names["/one-too-many"] = "/late"
    await eventually(lambda: directories.idle, "the looks that were given up")
    assert await directories.find("/one-too-many") == "/late"


async def test_a_crowd_that_asks_a_living_disk_at_once_is_answered_to_the_last(disk: Disk) -> None:
    directories = Directories(disk.look, Clock())
    paths = [f"/home-{number}" for number in range(3 * LOOKS)]
    disk.names.update({path: path for path in paths})
    disk.lives.clear()
    asking = [asyncio.create_task(directories.find(path)) for path in (*paths, paths[-1])]
    await eventually(lambda: len(disk.asked) == LOOKS)
    asking[LOOKS].cancel()  # who gives up takes nobody's turn
    disk.lives.set()
    found = await asyncio.gather(*asking, return_exceptions=True)
    assert isinstance(found.pop(LOOKS), asyncio.CancelledError)
    del paths[LOOKS]
    assert found == [*paths, paths[-1]]
    assert sorted(disk.asked) == sorted(paths)
    assert [directories.recall(path) for path in paths] == paths


async def test_an_old_answer_is_believed_once_more_and_asked_for_anew(disk: Disk) -> None:
    clock = Clock()
    directories = Directories(disk.look, clock)
    await directories.find("/link")
    disk.names["/link"] = "/moved"
    clock.now = FRESH - 0.1
    assert directories.recall("/link") == "/real"
    assert directories.idle
    clock.now = FRESH
    assert directories.recall("/link") == "/real"
    await eventually(lambda: directories.recall("/link") == "/moved")
    del disk.names["/link"]
    clock.now += FRESH
    assert directories.recall("/link") == "/moved"
    await eventually(lambda: directories.idle)
    assert directories.recall("/link") is None
    with pytest.raises(BadDirectory):
        await directories.find("/link")


async def test_a_defect_of_the_look_is_raised_where_it_is_awaited() -> None:
    def look(path: str) -> str:
        raise ZeroDivisionError(path)

    with pytest.raises(ZeroDivisionError):
        await Directories(look, Clock()).find("/x")


async def test_a_loop_that_is_gone_before_the_answer_hurts_no_thread(disk: Disk, tmp_path: Path) -> None:
    disk.lives.clear()
    died: list[object] = []

    async def ask() -> None:
        with pytest.raises(BadDirectory):
            await Directories(disk.look, Clock()).find(str(tmp_path), 0.01)

    kept, threading.excepthook = threading.excepthook, died.append
    try:
        await asyncio.to_thread(lambda: asyncio.run(ask()))
        disk.lives.set()
        await eventually(lambda: not any(thread.name.startswith("look at") for thread in threading.enumerate()))
    finally:
        threading.excepthook = kept
    assert died == []


async def test_a_look_for_which_there_is_no_thread_is_an_error_and_the_next_one_is_made(disk: Disk) -> None:
    clock = Clock()
    directories = Directories(disk.look, clock)
    assert await directories.find("/link") == "/real"
    disk.names["/other"] = "/second"
    clock.now = FRESH
    with no_threads():
        assert directories.recall("/link") == "/real", "what is known stays known"
        with pytest.raises(BadDirectory, match="could not be looked at: can't start new thread"):
            await directories.find("/other")
    assert directories.idle
    assert await directories.find("/other", 10) == "/second"


@contextmanager
def no_threads() -> Iterator[None]:
    """Every thread that is started meanwhile is one too many, as at a limit of the system."""

    def refuse(_thread: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    kept, threading.Thread.start = threading.Thread.start, refuse  # type: ignore[assignment,method-assign] # the system's part
    try:
        yield
    finally:
        threading.Thread.start = kept  # type: ignore[method-assign] # as above


async def test_n38_a_check_believes_no_old_answer(disk: Disk) -> None:
    clock = Clock()
    directories = Directories(disk.look, clock)
    assert await directories.check("/link") == "/real"
    disk.names["/link"] = "/elsewhere"
    clock.now = FRESH - 0.1
    assert await directories.check("/link") == "/real"
    clock.now = FRESH
    assert await directories.check("/link") == "/elsewhere"
    del disk.names["/link"]
    clock.now += FRESH
    with pytest.raises(BadDirectory, match="not there"):
        await directories.check("/link")
