"""What a disk, a lock or an operator can do to the file: reads go on, writes fail visibly, later ones land."""

import asyncio
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

import apsw
import pytest

from ostler.gateway.model.errors import (
    StoreBusy,
    StoreClosed,
    StoreCorrupt,
    StoreDiskFault,
    StoreFault,
    StoreLocked,
    StoreTooNew,
    StoreUnsafe,
)
from ostler.gateway.model.records import NewSession
from ostler.gateway.stores.sqlite import SqliteStore
from ostler.gateway.stores.sqlite.connection import check_library, value
from ostler.gateway.stores.sqlite.file import SqliteSettings, StoreFile
from ostler.metrics.loops import Loops
from tests.support.stores import said, texts, with_turns
from tools.faults.disk import DiskFault

CHILD = [sys.executable, "-m", "tests.support.store_child"]
ON_TMPFS = ["unshare", "-Urm", "sh", "-c", 'mount -t tmpfs -o size=4m tmpfs "$0" && exec "$@"']


def run_child(
    *words: str, before: list[str] | None = None, environ: Mapping[str, str] = MappingProxyType({})
) -> list[str]:
    line = [*(before or []), *CHILD, *words]
    done = subprocess.run(line, capture_output=True, text=True, check=False, timeout=300, env={**os.environ, **environ})
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def can_mount(folder: Path) -> bool:
    if shutil.which("unshare") is None:
        return False
    return subprocess.run([*ON_TMPFS, str(folder), "true"], capture_output=True, check=False).returncode == 0


def test_h03_rh3_a_full_disk_refuses_what_does_not_fit_and_later_writes_land(tmp_path: Path) -> None:
    if not can_mount(tmp_path):
        pytest.skip("needs a user namespace to mount a small disk")
    full, sound = run_child("full", str(tmp_path), before=[*ON_TMPFS, str(tmp_path)])
    assert full.startswith("full ")
    assert int(full.split()[1]) > 10
    assert "the disk is full" in full
    assert sound == "ok 1"


def test_h16_without_the_right_to_write_reads_go_on_and_writing_comes_back_without_a_restart() -> None:
    # Not below the folder of the test run: its parents are closed to whom the child becomes.
    with tempfile.TemporaryDirectory() as folder:
        assert run_child("read-only", folder) == ["refused", "refused", "before after"]


WRITER = "the thread that writes the store"


def test_n17_a_folder_that_may_not_be_looked_into_costs_the_writes_of_that_time_and_is_seen_from_outside() -> None:
    # Not below the folder of the test run: its parents are closed to whom the child becomes.
    with tempfile.TemporaryDirectory() as folder:
        assert run_child("shut", folder) == [f"['StoreReadOnly'] ['{WRITER} fails again and again; see the log']"]


def test_n17_every_error_of_a_look_costs_the_writes_of_that_time_and_is_seen_from_outside(tmp_path: Path) -> None:
    disk = DiskFault(tmp_path, tmp_path / "data")
    if not disk.works:
        pytest.skip("needs a C compiler")
    said_by = run_child("looks", str(tmp_path / "data"), environ=disk.environ)
    assert said_by == [
        f"['{fault}'] ['{WRITER} fails again and again; see the log']"
        for fault in ("StoreReadOnly", "StoreDiskFault", "StoreDiskFault")
    ]


def test_n17_n42_a_disk_that_does_not_answer_is_seen_from_outside_and_refuses_who_writes_later(tmp_path: Path) -> None:
    disk = DiskFault(tmp_path, tmp_path / "data")
    if not disk.works:
        pytest.skip("needs a C compiler")
    refused, broken, kept = run_child("stuck", str(tmp_path / "data"), environ=disk.environ)
    assert "the disk has not answered" in refused
    assert f"{WRITER} has not come back" in broken
    assert kept == "waits after"


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
async def test_n17_a_writer_that_ends_by_a_fault_of_ours_answers_everybody_and_is_seen_from_outside(path: Path) -> None:
    loops = Loops()
    file = StoreFile.open(path, SqliteSettings(), loops=loops)
    everybody_waits = threading.Event()

    def end_the_thread(_db: apsw.Connection) -> None:
        assert everybody_waits.wait(300)
        raise SystemExit

    writing = [file.write(end_the_thread), *(file.write(lambda db: value(db, "SELECT 1")) for _ in range(600))]
    everybody_waits.set()
    async with asyncio.timeout(300):
        told = await asyncio.gather(*writing, return_exceptions=True)
    assert {type(one) for one in told} == {StoreFault}
    assert loops.broken() == [f"{WRITER} has ended; see the log, then restart the gateway"]
    with pytest.raises(StoreFault, match="restart the gateway"):
        file.write(lambda db: value(db, "SELECT 1"))
    assert await file.read(lambda db: value(db, "SELECT 1")) == 1
    file.close()


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / "ostler.db"


async def test_h03_a_lock_of_seconds_is_waited_for(path: Path) -> None:
    store = await SqliteStore.open(path)
    await store.create_session(NewSession("sess_p"))
    other = apsw.Connection(str(path))
    other.execute("BEGIN IMMEDIATE")
    appending = [asyncio.ensure_future(store.append("sess_p", [said(f"{n}")])) for n in range(10)]
    # Readers pass by a lock; that one was answered shows that the writer was left to wait.
    assert await store.history("sess_p") == []
    assert not any(task.done() for task in appending)
    other.execute("COMMIT")
    await asyncio.gather(*appending)
    assert texts(await store.history("sess_p")) == [str(n) for n in range(10)]
    other.close()
    await store.aclose()


async def test_h03_a_lock_that_stays_is_told_to_every_writer_and_forgotten(path: Path) -> None:
    store = await SqliteStore.open(path, settings=SqliteSettings(lock_wait=0.05))
    await store.create_session(NewSession("sess_p"))
    other = apsw.Connection(str(path))
    other.execute("BEGIN IMMEDIATE")
    outcomes = await asyncio.gather(*(store.append("sess_p", [said("x")]) for _ in range(5)), return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [StoreLocked] * 5
    assert len({id(outcome) for outcome in outcomes}) == 5
    assert await store.history("sess_p") == []
    other.execute("COMMIT")
    await store.append("sess_p", [said("after")])
    assert texts(await store.history("sess_p")) == ["after"]
    other.close()
    await store.aclose()


async def test_h03_the_writes_of_one_turn_wait_once_for_a_lock_that_stays(path: Path) -> None:
    """Each of them behind the one before, as a turn writes; the second and third are told what the first found out."""
    store = await SqliteStore.open(path, settings=SqliteSettings(lock_wait=1.0))
    await store.create_session(NewSession("sess_p"))
    other = apsw.Connection(str(path))
    other.execute("BEGIN IMMEDIATE")
    waits = []
    for _ in range(3):
        with pytest.raises(StoreLocked) as locked:
            await store.append("sess_p", [said("x")])
        waits.append(locked.value.waited)
    assert waits == sorted(waits)
    assert waits[-1] < 2.0, "three whole waits would be 3 s"
    other.execute("COMMIT")
    await store.append("sess_p", [said("after")])
    assert texts(await store.history("sess_p")) == ["after"]
    other.close()
    await store.aclose()


async def test_h03_so_do_writes_that_cannot_even_open_the_file(path: Path) -> None:
    await (await SqliteStore.open(path)).aclose()
    other = apsw.Connection(str(path))
    other.execute("PRAGMA locking_mode=EXCLUSIVE").fetchall()
    other.execute("BEGIN IMMEDIATE; PRAGMA user_version")
    store = await SqliteStore.open(path, settings=SqliteSettings(lock_wait=1.0))
    waits = []
    for _ in range(3):
        with pytest.raises(StoreLocked) as locked:
            await store.create_session(NewSession("sess_p"))
        waits.append(locked.value.waited)
    assert waits == sorted(set(waits)), "each is told since when, and not how long it waited itself"
    other.close()
    await store.create_session(NewSession("sess_p"))
    await store.aclose()


async def test_too_many_waiting_writes_are_refused_at_once(path: Path) -> None:
    store = await SqliteStore.open(path, settings=SqliteSettings(most_waiting=5))
    await store.create_session(NewSession("sess_p"))
    other = apsw.Connection(str(path))
    other.execute("BEGIN IMMEDIATE")
    appending = [asyncio.ensure_future(store.append("sess_p", [said(f"{n}")])) for n in range(20)]
    assert await store.history("sess_p") == []
    other.execute("COMMIT")
    outcomes = await asyncio.gather(*appending, return_exceptions=True)
    stored = [outcome for outcome in outcomes if isinstance(outcome, list)]
    assert {type(outcome) for outcome in outcomes} == {list, StoreBusy}
    assert len(await store.history("sess_p")) == len(stored)
    other.close()
    await store.aclose()


async def test_a_cancelled_caller_takes_no_other_with_it(path: Path) -> None:
    store = await SqliteStore.open(path)
    await store.create_session(NewSession("sess_p"))
    appending = [asyncio.ensure_future(store.append("sess_p", [said(f"{n}")])) for n in range(3)]
    await asyncio.sleep(0)
    appending[1].cancel()
    outcomes = await asyncio.gather(*appending, return_exceptions=True)
    assert [type(outcome) for outcome in outcomes] == [list, asyncio.CancelledError, list]
    assert {"0", "2"} <= set(texts(await store.history("sess_p")))
    await store.aclose()


async def test_a_damaged_page_costs_its_own_session_only(path: Path) -> None:
    store = await SqliteStore.open(path)
    for name in ("sess_p", "sess_q"):
        await store.create_session(NewSession(name))
        await store.append(name, [said(f"{n} " + "x" * 500) for n in range(100)])
    await store.aclose()
    db = apsw.Connection(str(path))
    (page,) = next(iter(db.execute("SELECT pageno FROM dbstat WHERE name='messages' AND pagetype='leaf' LIMIT 1")))
    db.close()
    with path.open("r+b") as file:
        file.seek((page - 1) * 4096)
        file.write(b"\xff" * 4096)
    store = await SqliteStore.open(path)
    with pytest.raises(StoreCorrupt):
        await store.history("sess_p")
    assert len(await store.history("sess_q")) == 100
    await store.append("sess_q", [said("on")])
    assert texts(await store.history("sess_q", last=1)) == ["on"]
    await store.aclose()


@pytest.mark.parametrize("content", [b"this is not a database" * 1000, b"SQLite format 3\x00" + b"\xff" * 9000])
def test_a_file_that_is_no_database_is_refused_and_left_alone(path: Path, content: bytes) -> None:
    path.parent.mkdir()
    path.write_bytes(content)
    with pytest.raises(StoreCorrupt):
        asyncio.run(SqliteStore.open(path))
    assert path.read_bytes() == content


async def test_a_folder_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("a file")
    with pytest.raises(StoreDiskFault):
        await SqliteStore.open(tmp_path / "data" / "ostler.db")


async def test_a_file_of_a_newer_ostler_is_refused_and_left_alone(path: Path) -> None:
    await (await SqliteStore.open(path)).aclose()
    db = apsw.Connection(str(path))
    db.execute("PRAGMA user_version=999")
    db.close()
    with pytest.raises(StoreTooNew) as refused:
        await SqliteStore.open(path)
    assert refused.value.version == 999


async def test_a_closed_store_says_so_and_what_was_queued_is_stored(path: Path) -> None:
    store = await SqliteStore.open(path)
    await store.create_session(NewSession("sess_p"))
    appending = [asyncio.ensure_future(store.append("sess_p", [said(f"{n}")])) for n in range(50)]
    await asyncio.sleep(0)
    await store.aclose()
    await asyncio.gather(*appending)
    await store.aclose()
    for call in (store.append("sess_p", []), store.history("sess_p")):
        with pytest.raises(StoreClosed):
            await call
    async with asyncio.timeout(300):
        store = await SqliteStore.open(path)
        assert len(await store.history("sess_p")) == 50
        await store.aclose()


async def test_h14_a18_two_stores_on_one_file_lose_nothing_and_see_each_other(path: Path) -> None:
    first, second = await SqliteStore.open(path), await SqliteStore.open(path)
    await with_turns(first, "sess_p", 1)
    assert texts(await second.history("sess_p")) == ["u1", "a1"]

    async def write(store: SqliteStore, name: str) -> list[int]:
        return [ident for n in range(40) for ident in await store.append("sess_p", [said(f"{name}{n}")])]

    ids = await asyncio.gather(write(first, "f"), write(second, "s"))
    spoken = texts(await first.history("sess_p"))[2:]
    assert [text for text in spoken if text[0] == "f"] == [f"f{n}" for n in range(40)]
    assert [text for text in spoken if text[0] == "s"] == [f"s{n}" for n in range(40)]
    assert len({*ids[0], *ids[1]}) == 80
    await first.aclose()
    await second.aclose()


async def test_h20_the_open_store_reports_wal_and_full(path: Path) -> None:
    store = await SqliteStore.open(path)
    facts = await store.facts()
    assert (facts.journal_mode, facts.synchronous) == ("wal", "full")
    await store.aclose()


@pytest.mark.parametrize("version", ["3.40.1", "3.51.2", "3.7.0"])
def test_a_sqlite_with_the_wal_reset_bug_is_refused(version: str) -> None:
    with pytest.raises(StoreUnsafe):
        check_library(version)


def test_the_linked_sqlite_is_sound() -> None:
    check_library()
    check_library("3.51.3")
