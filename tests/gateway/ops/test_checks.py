"""What is looked at besides the agents, with the store's answers played."""

from dataclasses import dataclass, field
from pathlib import Path

from ostler.gateway.model.errors import StoreBusy, StoreFull, StoreReadOnly
from ostler.gateway.model.store import NoStoreWatch
from ostler.gateway.ops.checks import EVERY, SELDOM, Checks, LastWrite, Problem


@dataclass
class Store:
    """Says how writing goes, as its watch is told."""

    watch: LastWrite = field(default_factory=lambda: LastWrite(NoStoreWatch()))
    broken: bool = True
    tried: list[float] = field(default_factory=list)
    now: float = 0.0

    async def trial(self) -> None:
        self.tried.append(self.now)
        if self.broken:
            self.watch.failed(StoreReadOnly.__name__, 1)
            raise StoreReadOnly(Path("ostler.db"))
        self.watch.stored([0.0])


def checks(folder: Path, store: Store) -> Checks:
    return Checks(folder, store.watch, store.trial, {}, lambda: store.now)


async def test_n48_a_failed_write_is_a_problem_until_one_succeeds(tmp_path: Path) -> None:
    store = Store()
    looked = checks(tmp_path, store)
    store.watch.failed(StoreFull.__name__, 3)
    assert [problem.text for problem in looked.problems] == ["the disk of the data folder is full: free some space"]
    store.watch.stored([0.1])
    assert looked.problems == []
    store.watch.failed(StoreBusy.__name__, 1)
    assert looked.problems == []


async def test_n48_a_store_that_stays_broken_is_tried_less_and_less_often_and_its_recovery_is_seen(
    tmp_path: Path,
) -> None:
    store = Store()
    looked = checks(tmp_path, store)
    store.watch.failed(StoreReadOnly.__name__, 1)
    while store.now < 10 * SELDOM:
        await looked.run_once()
        store.now += EVERY
    pauses = [later - sooner for sooner, later in zip(store.tried, store.tried[1:], strict=False)]
    assert pauses[0] == EVERY
    assert max(pauses) == pauses[-1] == SELDOM
    store.broken = False
    store.now += SELDOM
    await looked.run_once()
    assert looked.problems == []
    tried = len(store.tried)
    await looked.run_once()
    assert len(store.tried) == tried


async def test_n48_a_check_that_fails_keeps_no_other_from_being_made(tmp_path: Path) -> None:
    async def fails() -> Problem | None:
        raise RuntimeError

    async def finds() -> Problem | None:
        return Problem("a", "b")

    store = Store()
    looked = Checks(tmp_path, store.watch, store.trial, {"one": fails, "two": finds}, lambda: 0.0)
    await looked.run_once()
    assert looked.problems == [Problem("a", "b")]


async def test_n48_a_data_folder_that_cannot_be_looked_at_is_a_problem(tmp_path: Path) -> None:
    looked = checks(tmp_path / "gone", Store())
    await looked.run_once()
    (problem,) = looked.problems
    assert str(tmp_path / "gone") in problem.detail
    assert str(tmp_path) not in problem.text
