"""Group H: the mirror of each session follows its turns, and gives back what a store has lost."""

import asyncio
import json
import stat
from pathlib import Path

from ostler.gateway.chat.admission import Admission
from ostler.gateway.chat.deps import ChatDeps
from ostler.gateway.chat.resets.policies import policies_of
from ostler.gateway.chat.session_keys import checked_key
from ostler.gateway.config.data_folder import DATABASE, MIRRORS
from ostler.gateway.config.keys import Caller
from ostler.gateway.config.settings import ResetSettings
from ostler.gateway.model.model_names import Models
from ostler.gateway.model.observers import SwitchReason
from ostler.gateway.turns.places import Places
from ostler.pool.launch.directories import Directories
from tests.support import database
from tests.support.chats import Chat, texts
from tests.support.served import Served, serving
from tests.support.waiting import eventually

PLACES = Places(Models({}, {"demo": "demo"}, "demo/demo"), Path("/"), Directories(str, lambda: 0.0))


def mirrored(folder: Path, session_id: str) -> list[str]:
    """The texts of a mirror."""
    file = folder / MIRRORS / f"{session_id}.jsonl"
    return [json.loads(line)["text"] for line in file.read_text().splitlines()] if file.exists() else []


def change(folder: Path, sql: str, *values: object) -> None:
    """Something that happens to the database while no gateway runs."""
    database.change(folder / DATABASE, sql, values=values)


def forget(folder: Path, session_id: str) -> None:
    """Lose every message of a session."""
    change(folder, "delete from messages where session_id = ?", session_id)
    change(folder, "update sessions set message_count = 0 where id = ?", session_id)


async def grown(served: Served, session_id: str, count: int) -> None:
    await eventually(lambda: len(mirrored(served.folder, session_id)) == count, f"{count} lines")


async def test_h05_what_only_the_mirror_has_comes_back_and_is_told_once(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    async with serving(folder) as served:
        chat = Chat(served)
        for number in range(3):
            p = (await chat.said(f"word{number}"))["session_id"]
    assert len(mirrored(folder, p)) == 6
    forget(folder, p)
    async with serving(folder) as served:
        chat = Chat(served)
        first = await chat.said("!recall")
        assert first["session_id"] == p
        assert [item["type"] for item in first["items"]] == ["notice", "message"]
        assert "6 messages" in first["items"][0]["text"]
        assert first["text"] == "word0\nword1\nword2"
        for number in range(3):
            assert [item["type"] for item in (await chat.said(f"more{number}"))["items"]] == ["message"]
        stored = [text for _, text in texts(served, p)]
        assert len(stored) == 14
        await grown(served, p, 14)
        assert mirrored(folder, p) == stored


async def test_h05_a_session_that_only_its_mirror_remembers_is_brought_back(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    async with serving(folder) as served:
        p = (await Chat(served, "old").said("apple"))["session_id"]
    for file in folder.glob(f"{DATABASE}*"):
        file.unlink()
    async with serving(folder) as served:
        chat_deps = ChatDeps(served.gateway.sessions, PLACES, policies_of(ResetSettings(), {}))
        conversation = await Admission(chat_deps).find(checked_key("new"), Caller())
        assert await conversation.rescued("sess_never") is None
        found = await conversation.rescued(p)
        assert found is not None
        assert (found.message_count, len(conversation.notices)) == (2, 1)
        await conversation.switch_to(p, SwitchReason.RESUME)
        assert await Chat(served, "new").text("!recall") == "apple"
        assert await conversation.rescued(p) is None
        foreign = await Admission(chat_deps).find(checked_key("new", "ann"), Caller("ann"))
        assert await foreign.rescued(p) is None


async def test_h05_rh5_lines_that_cannot_be_read_are_left_out_and_said(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    async with serving(folder) as served:
        p = (await Chat(served).said("one"))["session_id"]
    file = folder / MIRRORS / f"{p}.jsonl"
    file.write_bytes(b"{half a li\n" + file.read_bytes() + b'"torn')
    async with serving(folder) as served:
        told = (await Chat(served).said("two"))["items"][0]
        assert (told["type"], "2 lines" in told["text"]) == ("notice", True)
        await grown(served, p, 4)


async def test_h17_what_was_undone_before_a_crash_does_not_come_back(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    async with serving(folder) as served:
        chat = Chat(served)
        await chat.said("kept")
        p = (await chat.said("undone"))["session_id"]
    # The store was told of the undo, and the gateway died before the file was written.
    change(folder, "update messages set active = 0 where session_id = ? and text like '%undone'", p)
    change(folder, "update sessions set message_count = 2 where id = ?", p)
    assert "undone" in mirrored(folder, p)
    async with serving(folder) as served:
        answer = await Chat(served).said("!recall")
        assert answer["text"] == "kept"
        assert [item["type"] for item in answer["items"]] == ["message"]
        await grown(served, p, 4)
        assert "undone" not in mirrored(folder, p)


async def test_h07_a_rewrite_shortens_the_file_and_the_next_turn_goes_on_from_there(tmp_path: Path) -> None:
    async with serving(tmp_path / "data") as served:
        chat, store = Chat(served), served.gateway.store
        await chat.said("kept")
        p = (await chat.said("undone"))["session_id"]
        await grown(served, p, 4)
        await store.deactivate_from(p, (await store.history(p))[2].id)
        await served.gateway.sessions.deps.mirrors.rewrite(p)
        assert mirrored(served.folder, p) == ["kept", "echo: kept"]
        assert await chat.text("!recall") == "kept"
        await grown(served, p, 4)
        assert mirrored(served.folder, p) == [text for _, text in texts(served, p)]


async def test_h07_a_mirror_that_knows_more_is_not_shortened_by_one_who_did_not_read_it(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    async with serving(folder) as served:
        p = (await Chat(served).said("one"))["session_id"]
    forget(folder, p)
    async with serving(folder, gateway__mirrors=False) as served:
        await Chat(served).said("in the dark")
    assert mirrored(folder, p) == ["one", "echo: one"]
    async with serving(folder) as served:
        assert await Chat(served).text("!recall") in ("one\nin the dark", "in the dark\none")


async def test_h08_c26_each_session_has_a_file_of_its_own_for_its_owner_only(served: Served, chat: Chat) -> None:
    p = (await chat.said("old"))["session_id"]
    await grown(served, p, 2)
    await chat.said("/new")
    q = (await chat.said("new"))["session_id"]
    await grown(served, q, 2)
    assert mirrored(served.folder, p) == ["old", "echo: old"]
    files = list((served.folder / MIRRORS).iterdir())
    assert {stat.S_IMODE(file.stat().st_mode) for file in files} == {0o600}
    assert stat.S_IMODE((served.folder / MIRRORS).stat().st_mode) == 0o700


async def test_b19_a_mirror_that_was_deleted_is_written_again_and_changes_nothing_else(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    async with serving(folder) as served:
        p = (await Chat(served).said("one"))["session_id"]
    (folder / MIRRORS / f"{p}.jsonl").unlink()
    async with serving(folder) as served:
        answer = await Chat(served).said("!recall")
        assert (answer["session_id"], answer["text"], len(answer["items"])) == (p, "one", 1)
        await grown(served, p, 4)


async def test_h03_a_mirror_that_cannot_be_written_costs_no_turn(served: Served, chat: Chat) -> None:
    (served.folder / MIRRORS).write_text("a file in the way of the folder")
    p = (await chat.said("one"))["session_id"]
    assert await chat.text("two") == "echo: two"
    (served.folder / MIRRORS).unlink()
    await chat.said("three")
    await grown(served, p, 6)


async def test_h14_rows_of_another_process_are_mirrored_in_their_place(served: Served, chat: Chat) -> None:
    p = (await chat.said("one"))["session_id"]
    script = (
        "import asyncio, sys; from pathlib import Path;"
        "from ostler.gateway.model.records import NewMessage; from ostler.gateway.stores.sqlite import SqliteStore\n"
        "async def main():\n"
        "    store = await SqliteStore.open(Path(sys.argv[1]))\n"
        "    await store.append(sys.argv[2], [NewMessage('user', [], 'theirs'), NewMessage('assistant', [], 'so')])\n"
        "    await store.aclose()\n"
        "asyncio.run(main())"
    )
    await asyncio.to_thread(run_python, script, str(served.folder / DATABASE), p)
    assert await chat.text("!recall") == "one\ntheirs"
    await grown(served, p, 6)
    assert mirrored(served.folder, p) == [text for _, text in texts(served, p)]


def run_python(script: str, *arguments: str) -> None:
    """In a process of its own."""
    import subprocess
    import sys

    subprocess.run([sys.executable, "-c", script, *arguments], check=True, timeout=300)


async def test_h07_of_more_sessions_than_are_remembered_each_mirror_has_every_line_once(tmp_path: Path) -> None:
    """How far a mirror is, is remembered of as many sessions as are: of any other it is found out anew."""
    async with serving(tmp_path / "data", gateway__sessions_max=1) as served:
        chats = [Chat(served, f"key{number}") for number in range(3)]
        for word in ("one", "two"):
            for chat in chats:
                await chat.said(word)
        for chat in chats:
            session_id = (await chat.said("three"))["session_id"]
            await grown(served, session_id, 6)
            assert mirrored(served.folder, session_id) == [text for _, text in texts(served, session_id)]
