"""The locks on the database stay: without them another program deletes the log that we write to."""

import asyncio
import os
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import apsw
import pytest

from ostler.gateway.config.data_folder import DATABASE
from ostler.gateway.memory.notebook import Notebook, NoteKind
from ostler.gateway.model.errors import StoreLocked
from ostler.gateway.model.records import NewSession
from ostler.gateway.stores.sqlite import SqliteStore
from ostler.gateway.stores.sqlite.connection import make_private
from ostler.gateway.stores.sqlite.file import SqliteSettings
from tests.support.database import change
from tests.support.locks import holds, watched_opens
from tests.support.served import serving
from tests.support.stores import said, texts

FAST = SqliteSettings(lock_wait=0.05)
BACKUP = """
import sqlite3, sys
with sqlite3.connect(sys.argv[1]) as live, sqlite3.connect(sys.argv[2]) as copy:
    live.backup(copy)
    print(copy.execute("pragma integrity_check").fetchone()[0], end=" ")
    print(copy.execute("select count(*) from messages").fetchone()[0])
copy.close()
live.close()
"""


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / DATABASE


def backed_up(path: Path) -> str:
    """By another program, which closes everything that it opened."""
    line = [sys.executable, "-c", BACKUP, str(path), str(path.with_name("copy.db"))]
    return subprocess.run(line, check=True, capture_output=True, text=True, timeout=60).stdout.strip()


def mode_of(path: Path) -> int:
    return path.stat().st_mode & 0o777


async def test_n18_the_locks_are_held_after_writes_faults_and_a_new_connection(path: Path) -> None:
    store = await SqliteStore.open(path, settings=FAST)
    await store.create_session(NewSession("sess_p"))
    assert holds(path)
    with closing(apsw.Connection(str(path))) as other:
        other.execute("BEGIN IMMEDIATE")
        with pytest.raises(StoreLocked):
            await store.append("sess_p", [said("never")])
        other.execute("ROLLBACK")
    assert holds(path)
    os.chmod(path, 0o640)  # noqa: PTH101 - a quick call in a test, wherever it runs
    second = await SqliteStore.open(path, settings=FAST)
    await second.append("sess_p", [said("by the second")])
    assert holds(path)
    assert mode_of(path) == 0o600
    await second.aclose()
    await store.append("sess_p", [said("by the first")])
    assert holds(path)
    assert holds(path.with_name(path.name + "-shm"))
    await store.aclose()
    assert not holds(path)


async def test_n18_what_is_stored_after_a_backup_of_another_program_is_in_the_file(path: Path) -> None:
    store = await SqliteStore.open(path)
    assert await store.list_sessions() == [], "a reader is there before the first write opens the file, as in a gateway"
    await store.create_session(NewSession("sess_p"))
    for number in range(5):
        await store.append("sess_p", [said(str(number))])
        assert await asyncio.to_thread(backed_up, path) == f"ok {number + 1}"
        assert path.with_name(path.name + "-wal").exists()
    seen = await asyncio.to_thread(backed_up, path)
    await store.aclose()
    assert seen == "ok 5"
    store = await SqliteStore.open(path)
    assert texts(await store.history("sess_p")) == [str(number) for number in range(5)]
    await store.aclose()


def test_n18_the_notebook_of_memory_keeps_its_locks_when_another_one_is_opened(tmp_path: Path) -> None:
    path = tmp_path / "memory.db"
    first = Notebook(path, lambda: 0.0)
    first.keep(NoteKind.FACT, "one", session_id="p", user="u")
    second = Notebook(path, lambda: 0.0)
    second.close()
    assert holds(path)
    first.close()


def test_n18_a_database_is_made_private_through_a_link_without_being_opened(tmp_path: Path) -> None:
    link = tmp_path / "link.db"
    link.symlink_to(tmp_path / "real.db")
    with watched_opens() as opened:
        make_private(link)
    assert opened == []
    assert (tmp_path / "real.db").stat().st_mode & 0o777 == 0o600


async def test_n18_no_code_of_a_gateway_opens_a_database_but_through_sqlite(tmp_path: Path) -> None:
    data = tmp_path / "data"
    data.mkdir(mode=0o700)
    change(
        data / DATABASE,
        "CREATE TABLE conversations (slug TEXT PRIMARY KEY, response_id TEXT NOT NULL)",
        "PRAGMA user_version=1",
    )
    with watched_opens() as opened:
        async with serving(data, memory__enabled=True) as served:
            for turn in range(3):
                assert await served.say(f"hello {turn}", conversation="one") == f"echo: hello {turn}"
                assert holds(data / DATABASE)
                assert holds(data / "memory.db")
            for path in ("/metrics", "/readyz", "/v1/conversations/one", "/openapi.json", "/"):
                assert (await served.http.get(path)).status_code < 500
            store = served.gateway.store
            await store.facts()
            await store.prune(before=0.0)
            assert holds(data / DATABASE)
            assert holds(data / "memory.db")
    assert [path for path in opened if ".db" in Path(path).name] == []
