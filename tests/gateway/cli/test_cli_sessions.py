"""`ostler sessions`: what it prints, what it exits with, and that a way out and in again loses nothing."""

import asyncio
import json
from pathlib import Path

import pytest

from ostler.gateway.__main__ import main
from ostler.gateway.config.data_folder import DATABASE, MIRRORS, data_folder
from ostler.gateway.memory.embedded import FILE as MEMORY
from ostler.gateway.memory.notebook import Notebook, NoteKind
from ostler.gateway.model.records import EndReason
from ostler.gateway.stores.mirror import Mirror
from ostler.gateway.stores.sqlite import SqliteStore
from tests.support.stores import said, with_turns


async def fill(folder: Path) -> None:
    store = await SqliteStore.open(folder / DATABASE)
    ids = await with_turns(store, "sess_one", 2, platform="web", owner="ann")
    await with_turns(store, "sess_two", 1)
    await store.set_title("sess_one", "Garden Plan")
    await store.deactivate_from("sess_one", ids[2])
    await store.end_session("sess_two", EndReason.IDLE)
    await store.aclose()


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    asyncio.run(fill(tmp_path / "data"))
    return tmp_path / "data"


def told(capsys: pytest.CaptureFixture[str], folder: Path, *words: str) -> list[dict[str, object]]:
    assert main(["sessions", *words, "--json", "--data-dir", str(folder)]) == 0
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


def test_sessions_are_listed_the_last_active_first(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert [row["id"] for row in told(capsys, folder, "list")] == ["sess_two", "sess_one"]
    assert [row["id"] for row in told(capsys, folder, "list", "--titled", "--owner", "ann")] == ["sess_one"]
    assert main(["sessions", "list", "--data-dir", str(folder)]) == 0
    shown = capsys.readouterr().out
    assert "'Garden Plan'" in shown
    assert "ended: idle" in shown


@pytest.mark.parametrize("name", ["sess_one", "sess_o", "Garden Plan"])
def test_a_session_is_shown_by_id_beginning_or_title(
    folder: Path, capsys: pytest.CaptureFixture[str], name: str
) -> None:
    session, *messages = told(capsys, folder, "show", name)
    assert session["id"] == "sess_one"
    assert [message["text"] for message in messages] == ["u1", "a1"]
    assert len(told(capsys, folder, "show", name, "--all")) == 5


def test_an_unknown_or_ambiguous_session_is_an_error_that_names_it(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("nobody", "sess_"):
        assert main(["sessions", "show", name, "--data-dir", str(folder)]) == 1
        assert f"no session {name!r}" in capsys.readouterr().err


def test_c28_d21_search_finds_what_is_not_undone(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert [hit["session_id"] for hit in told(capsys, folder, "search", "u1")] == ["sess_two", "sess_one"]
    assert told(capsys, folder, "search", "u2") == []


def test_exported_sessions_come_in_again_once(folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file, other = tmp_path / "out.jsonl", tmp_path / "other"
    assert main(["sessions", "export", "--output", str(file), "--data-dir", str(folder)]) == 0
    assert file.stat().st_mode & 0o077 == 0
    (brought,) = told(capsys, other, "import", str(file))
    assert (brought["sessions"], brought["messages"], brought["unreadable"]) == (2, 4, 0)
    (again,) = told(capsys, other, "import", str(file))
    assert (brought["created"], again["created"], again["messages"]) == (2, 0, 0)
    assert main(["sessions", "import", str(file), "--data-dir", str(other)]) == 0
    assert capsys.readouterr().out == "2 sessions read; 0 sessions and 0 messages of them are new\n"
    assert main(["sessions", "export", "--data-dir", str(other)]) == 0
    old = [json.loads(line) for line in file.read_text().splitlines()]
    new = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    unlike = {"last_active_at", "ended_at"}
    assert [{k: v for k, v in line.items() if k not in unlike} for line in new] == [
        {k: v for k, v in line.items() if k not in unlike} for line in old
    ]


def test_h05_a_mirror_file_is_brought_into_its_session(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mirror = Mirror(folder / MIRRORS)
    mirror.append("sess_lost", [said("a"), said("b")])
    with mirror.path("sess_lost").open("ab") as file:
        file.write(b"garbage\n")
    (brought,) = told(capsys, folder, "import", str(mirror.path("sess_lost")))
    assert (brought["sessions"], brought["messages"], brought["unreadable"]) == (1, 2, 1)
    _, *messages = told(capsys, folder, "show", "sess_lost")
    assert [message["text"] for message in messages] == ["a", "b"]


@pytest.mark.parametrize("name", ["notes.txt", "two words.txt"])
def test_a_file_without_sessions_is_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str], name: str) -> None:
    (tmp_path / name).write_text("dear diary\n\nnothing happened\n")
    assert main(["sessions", "import", str(tmp_path / name), "--data-dir", str(tmp_path / "data")]) == 1
    out, err = capsys.readouterr()
    assert (out, err) == ("", "ostler sessions: nothing was stored: none of 2 lines is a session or its message\n")


def test_old_ended_sessions_are_pruned_with_their_mirrors(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mirror = Mirror(folder / MIRRORS)
    mirror.append("sess_two", [said("a")])
    book = Notebook(folder / MEMORY, lambda: 0.0)
    for kind in NoteKind:
        book.keep(kind, f"a red {kind}", session_id="sess_two", user="anna")
    assert told(capsys, folder, "prune", "--days", "1") == [{"pruned": []}]
    assert told(capsys, folder, "prune", "--days", "0") == [{"pruned": ["sess_two"]}]
    assert mirror.session_ids() == []
    assert [note.kind for note in book.search("red", user="anna", limit=5)] == [NoteKind.FACT]
    book.close()
    assert [row["id"] for row in told(capsys, folder, "list")] == ["sess_one"]


def test_looking_makes_no_database(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sessions", "list", "--data-dir", str(tmp_path / "none")]) == 0
    assert main(["sessions", "show", "x", "--data-dir", str(tmp_path / "none")]) == 1
    assert "nothing is stored" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("words", [[], ["sing"], ["prune"], ["show"], ["list", "--limit", "x"]])
def test_a_wrong_call_exits_2(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["sessions", *words]) == 2
    assert "usage: ostler sessions" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("given", "environ", "folder"),
    [
        ("/a", {"OSTLER_DATA_DIR": "/b", "XDG_STATE_HOME": "/c", "HOME": "/h"}, "/a"),
        (None, {"OSTLER_DATA_DIR": "/b", "XDG_STATE_HOME": "/c", "HOME": "/h"}, "/b"),
        (None, {"OSTLER_DATA_DIR": "", "XDG_STATE_HOME": "/c", "HOME": "/h"}, "/c/ostler"),
        (None, {"XDG_STATE_HOME": "c", "HOME": "/h"}, "/h/.local/state/ostler"),
        (None, {"HOME": "/h"}, "/h/.local/state/ostler"),
    ],
)
def test_the_data_folder_is_what_is_said_nearest(given: str | None, environ: dict[str, str], folder: str) -> None:
    assert data_folder(given, environ) == Path(folder)
