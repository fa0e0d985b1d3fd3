"""Files: private, migrated once, backed up before anything is dropped."""

import asyncio
import os
import sqlite3
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from ostler.gateway.model.records import NewSession, TurnCommit
from ostler.gateway.stores.sqlite import SqliteStore
from tests.support.stores import response, said, texts

CHILD = [sys.executable, "-m", "tests.support.store_child"]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "data" / "ostler.db"


def modes(folder: Path) -> dict[str, str]:
    return {file.name: oct(stat.S_IMODE(file.stat().st_mode)) for file in sorted(folder.iterdir())}


@pytest.mark.parametrize("mask", [0o000, 0o022, 0o077])
async def test_c26_database_and_log_are_readable_by_their_owner_only(path: Path, mask: int) -> None:
    before = os.umask(mask)
    try:
        store = await SqliteStore.open(path)
        await store.create_session(NewSession("sess_p"))
        found = modes(path.parent)
        await store.aclose()
    finally:
        os.umask(before)
    assert set(found) == {"ostler.db", "ostler.db-shm", "ostler.db-wal"}
    assert set(found.values()) == {"0o600"}


def test_c26_a_file_that_is_open_to_others_is_closed_to_them(path: Path) -> None:
    asyncio.run(open_and_close(path))
    path.chmod(0o644)
    asyncio.run(open_and_close(path))
    assert modes(path.parent) == {"ostler.db": "0o600"}


async def open_and_close(path: Path) -> None:
    await (await SqliteStore.open(path)).aclose()


def make_early_file(path: Path) -> None:
    """As the first version wrote it: slugs know neither their session nor their owner."""
    path.parent.mkdir(mode=0o700)
    with sqlite3.connect(path) as db:
        db.executescript(
            "CREATE TABLE conversations (slug TEXT PRIMARY KEY, response_id TEXT NOT NULL);"
            "INSERT INTO conversations VALUES ('one', 'resp_1'), ('two', 'resp_2');"
            "PRAGMA user_version=1;"
        )
    db.close()


async def test_c10_c11_an_early_file_is_migrated_once_and_keeps_its_data(path: Path) -> None:
    make_early_file(path)
    store = await SqliteStore.open(path)
    found = [await store.get_conversation(slug) for slug in ("one", "two")]
    assert [each and (each.response_id, each.session_id) for each in found] == [("resp_1", None), ("resp_2", None)]
    claimed = await store.claim_conversation("two", NewSession("sess_q"))
    assert (claimed.session_id, claimed.response_id) == ("sess_q", "resp_2"), "C11: one without a session is given one"
    await store.create_session(NewSession("sess_p"))
    await store.commit_turn(TurnCommit("sess_p", [said("u")], response("resp_3"), "one"))
    await store.aclose()
    backup = path.with_name("ostler.db.v1.bak")
    with sqlite3.connect(backup) as db:
        assert db.execute("SELECT count(*) FROM conversations").fetchone() == (2,)
    db.close()
    written = backup.stat().st_mtime_ns
    store = await SqliteStore.open(path)
    slug = await store.get_conversation("one")
    assert slug is not None
    assert (slug.session_id, slug.response_id) == ("sess_p", "resp_3")
    await store.aclose()
    assert backup.stat().st_mtime_ns == written
    assert modes(path.parent) == {"ostler.db": "0o600", "ostler.db.v1.bak": "0o600"}


@pytest.mark.parametrize("early", [True, False])
def test_c10_processes_that_open_at_the_same_time_all_succeed(path: Path, early: bool) -> None:
    if early:
        make_early_file(path)
    started = [
        subprocess.Popen([*CHILD, "open", str(path.parent)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(4)
    ]
    ended = [child.communicate() for child in started]
    expected = f"opened {2 if early else 0}\n"
    assert [out for out, _ in ended] == [expected] * 4, ended


async def test_c10_c11_a_file_that_lacks_only_the_column_gets_it(path: Path) -> None:
    store = await SqliteStore.open(path)
    await store.claim_conversation("one", NewSession("sess_p"))
    await store.commit_turn(TurnCommit("sess_p", [said("kept")], response("resp_1"), "one"))
    await store.aclose()
    with sqlite3.connect(path) as db:
        db.executescript("DROP INDEX conversations_by_session; ALTER TABLE conversations DROP COLUMN session_id;")
    db.close()
    store = await SqliteStore.open(path)
    slug = await store.get_conversation("one")
    assert slug is not None
    assert (slug.response_id, slug.session_id) == ("resp_1", None)
    assert texts(await store.history("sess_p")) == ["kept"]
    await store.aclose()


async def test_c05_c06_responses_that_were_removed_by_hand_count_as_evicted(path: Path) -> None:
    store = await SqliteStore.open(path)
    for slug, made in (("one", "resp_1"), ("two", "resp_2")):
        await store.claim_conversation(slug, NewSession("sess_p"))
        await store.commit_turn(TurnCommit("sess_p", [said("u")], response(made), slug))
    await store.aclose()
    with sqlite3.connect(path) as db:
        db.execute("UPDATE responses SET body = '{' WHERE id = 'resp_1'")
        db.execute("DELETE FROM responses WHERE id = 'resp_2'")
        assert db.execute("SELECT count FROM response_totals").fetchone() == (1,)
    db.close()
    store = await SqliteStore.open(path)
    assert await store.get_response("resp_1") is None
    assert await store.get_response("resp_2") is None
    found = [await store.get_conversation(slug) for slug in ("one", "two")]
    assert [each and each.session_id for each in found] == ["sess_p", "sess_p"]
    await store.aclose()
