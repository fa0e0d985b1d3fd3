"""Text that nobody can ask for is deleted in time, and at once where its owner says so; what can be asked for stays."""

import asyncio
import subprocess
from pathlib import Path
from typing import Any

import pytest

from ostler.gateway.__main__ import main
from ostler.gateway.config.data_folder import MIRRORS
from tests.support.chats import Chat
from tests.support.memory import Prov, making
from tests.support.served import SESSION, Served, serving
from tests.support.waiting import eventually

SECRET = "xylophonist"
HOUR, DAY = 3600.0, 86_400.0


class Wall:
    """A clock on the wall that tests set."""

    def __init__(self) -> None:
        self.now = 1_700_000_000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def wall() -> Wall:
    return Wall()


async def later(served: Served, wall: Wall, seconds: float) -> int:
    """So much later, with no seat in use: how many sessions a pass deletes."""
    for session_id in served.gateway.sessions.in_use():
        session = served.gateway.sessions.find(session_id)
        assert session is not None
        session.release_seat()
    wall.now += seconds
    return await served.gateway.retention.check()


def sessions(served: Served) -> list[Any]:
    return served.rows("select id, end_reason from sessions order by id")


def files_with(folder: Path, word: str = SECRET) -> list[str]:
    """Of the files that are the gateway's; what agents keep of their own is theirs. Another process looks: ours would
    drop the locks of the store by it."""
    ours = [str(path) for path in (*folder.glob("*.db*"), *folder.glob(f"{MIRRORS}/*"))]
    line = ["grep", "-lai", word, *ours, "/dev/null"]
    return subprocess.run(line, check=False, capture_output=True, text=True).stdout.splitlines()


async def test_n28_what_was_not_to_be_stored_is_gone_when_its_seat_is(tmp_path: Path, wall: Wall) -> None:
    async with serving(tmp_path / "data", wall=wall) as served:
        first = await served.ask(f"the word is {SECRET}", store=False)
        session = first.headers[SESSION]
        mirror = served.folder / MIRRORS / f"{session}.jsonl"
        await eventually(mirror.exists, "the mirror is written beside the turn")
        assert await served.gateway.retention.check() == 0, "its seat is held for the next request"
        assert await later(served, wall, 10.0) == 0
        assert await later(served, wall, HOUR) == 1
        assert sessions(served) == []
        assert not mirror.exists()
        assert served.rows("select count(*) from messages") == [(0,)]
        again = [
            {"role": "user", "content": f"the word is {SECRET}"},
            {"role": "assistant", "content": f"echo: the word is {SECRET}"},
            {"role": "user", "content": "and now?"},
        ]
        answer = await served.ask(again, store=False)
        assert (answer.status_code, answer.headers[SESSION] != session) == (200, True)


async def test_n28_a_stateless_conversation_ends_and_is_deleted_after_the_retention(tmp_path: Path, wall: Wall) -> None:
    async with serving(tmp_path / "data", wall=wall) as served:
        body = {"model": "demo", "messages": [{"role": "user", "content": "hello"}]}
        session = (await served.http.post("/v1/chat/completions", json=body)).headers[SESSION]
        assert await later(served, wall, HOUR) == 0
        assert sessions(served) == [(session, "unreachable")]
        assert await later(served, wall, 29 * DAY) == 0
        assert await later(served, wall, 2 * DAY) == 1
        assert sessions(served) == []


async def test_n28_a_deleted_conversation_goes_after_the_retention_and_a_named_one_stays(
    tmp_path: Path, wall: Wall
) -> None:
    async with serving(tmp_path / "data", wall=wall) as served:
        gone = await served.ask("hello", conversation="gone")
        await served.ask("hello", conversation="kept")
        lone = await served.ask("hello")
        await served.http.delete("/v1/conversations/gone")
        assert await later(served, wall, 29 * DAY) == 0
        assert (await served.http.get(f"/v1/responses/{gone.json()['id']}")).status_code == 200
        assert await later(served, wall, 2 * DAY) == 1
        assert (await served.http.get(f"/v1/responses/{gone.json()['id']}")).status_code == 404
        assert (await served.http.get(f"/v1/responses/{lone.json()['id']}")).status_code == 200
        assert [reason for _, reason in sessions(served)] == [None, None]
        assert (await served.ask("on", conversation="kept")).status_code == 200


@pytest.mark.parametrize("ended", [None, 7 * DAY])
async def test_n28_ended_sessions_of_chat_faces_stay_until_the_operator_says_for_how_long(
    tmp_path: Path, wall: Wall, ended: float | None
) -> None:
    settings = {} if ended is None else {"retention__ended": ended}
    async with serving(tmp_path / "data", wall=wall, **settings) as served:
        chat = Chat(served)
        await chat.said("one")
        await chat.said("/new")
        await chat.said("two")
        assert await later(served, wall, 6 * DAY) == 0
        assert await later(served, wall, 400 * DAY) == (0 if ended is None else 1)
        assert len(sessions(served)) == (2 if ended is None else 1)


@pytest.mark.parametrize("faces", ["api", "chat"])
async def test_n28_memories_are_told_of_what_expires_and_of_what_is_erased(
    tmp_path: Path, wall: Wall, faces: str
) -> None:
    prov = Prov()
    async with serving(tmp_path / "data", wall=wall, memory={"prov": making(prov)}, retention__ended=7 * DAY) as served:
        if faces == "chat":
            chat = Chat(served)
            await chat.said("one")
            await chat.said("/new")
            ((session, _),) = [row for row in sessions(served) if row[1] is not None]
        else:
            body = {"model": "demo", "messages": [{"role": "user", "content": "hello"}]}
            session = (await served.http.post("/v1/chat/completions", json=body)).headers[SESSION]
        unstored = (await served.ask("hello", store=False)).headers[SESSION]
        await later(served, wall, HOUR)
        await eventually(lambda: bool(prov.calls("on_session_erased")), "the unstored session is erased")
        assert prov.calls("on_session_expired") == []
        await later(served, wall, 31 * DAY)
        await eventually(lambda: bool(prov.calls("on_session_expired")), "the other one has expired")
        assert [call.session for call in prov.calls("on_session_erased", "on_session_expired")] == [unstored, session]


@pytest.mark.parametrize("way", ["conversation", "response"])
async def test_n28_a_delete_that_erases_leaves_the_text_in_no_file(tmp_path: Path, way: str) -> None:
    async with serving(tmp_path / "data", memory__enabled=True) as served:
        named = {"conversation": "x"} if way == "conversation" else {}
        first = await served.ask(f"the word to keep is {SECRET}", **named)
        mirror = served.folder / MIRRORS / f"{first.headers[SESSION]}.jsonl"
        await eventually(mirror.exists, "the mirror is written beside the turn")
        await eventually(lambda: not set(served.gateway.memories.undone().values()) - {0}, "the memory has heard of it")
        await served.ask("quite another thing", conversation="y")
        assert files_with(served.folder) != []
        path = "/v1/conversations/x" if way == "conversation" else f"/v1/responses/{first.json()['id']}"
        answer = await served.http.delete(path, params={"erase": "true"})
        assert answer.json()["deleted"] is True
        await eventually(lambda: not files_with(served.folder), "the logs are emptied beside it", seconds=30)
        assert (await served.http.get(f"/v1/responses/{first.json()['id']}")).status_code == 404
        assert (await served.http.get(path)).status_code == 404
        assert await served.say("!recall", conversation="y") == "quite another thing"


async def test_n28_n19_erasing_stops_what_runs_and_nothing_comes_back(tmp_path: Path) -> None:
    async with serving(tmp_path / "data") as served:
        await served.ask("hello", conversation="x")
        running = asyncio.ensure_future(served.ask(f"{SECRET}\n!sleep 60", conversation="x"))
        await eventually(lambda: len(served.prompts()) == 2, "the second turn runs")
        await served.http.delete("/v1/conversations/x", params={"erase": "true"})
        answer = await running
        assert answer.json()["status"] == "cancelled"
        assert sessions(served) == []
        assert served.rows("select count(*) from messages") == [(0,)]
        assert served.rows("select count(*) from conversations") == [(0,)]


async def test_n28_the_command_erases_by_session_by_key_and_by_owner(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data = tmp_path / "data"
    async with serving(data, memory__enabled=True) as served:
        chat = Chat(served)
        await chat.said(f"the word to keep is {SECRET}")
        await chat.said("/new")
        await chat.said(f"again the word {SECRET}")
        await served.ask(f"and the word {SECRET} here")

    async def erase(*words: str) -> int:
        return await asyncio.to_thread(main, ["sessions", "erase", *words, "--data-dir", str(data)])

    key = chat.key
    assert await erase() == 2
    assert await erase("--key", key) == 0
    assert "2 sessions would be erased; add --yes to do it" in capsys.readouterr().out
    assert await erase("--key", key, "--yes") == 0
    assert "2 sessions and 2 notes" in capsys.readouterr().out
    assert await erase("--owner", "", "--yes") == 0
    assert "1 sessions" in capsys.readouterr().out
    assert files_with(data) == []
