"""Commands in the places people talk in: each acts on the very conversation that its messages belong to."""

import asyncio
import json
import logging
from pathlib import Path

import httpx
import pytest

from ostler.gateway.chat.session_keys import ChatPlace, key_of
from tests.support.chats import Chat, ended, texts
from tests.support.recorder import RecordingObserver
from tests.support.served import Served, serving
from tests.support.waiting import eventually

PLACES = (
    ChatPlace("telegram", "7", "7"),
    ChatPlace("telegram", "-100", "7", group=True),
    ChatPlace("telegram", "-100", "8", group=True),
    ChatPlace("telegram", "-100", "7", group=True, thread="12"),
)
SHORT = '"was this all?"'


async def test_d11_commands_act_on_the_session_of_their_place(served: Served) -> None:
    chats = [Chat(served, key_of(place).text) for place in PLACES]
    first = {chat.key: (await chat.said(f"one of {chat.key}"))["session_id"] for chat in chats}
    for chat in chats:
        p = first[chat.key]
        await chat.said("two")
        assert (await chat.said("/undo"))["session_id"] == p
        again = await chat.said("/retry")
        assert (again["session_id"], again["text"]) == (p, f"echo: one of {chat.key}")
        q = (await chat.said("/reset"))["session_id"]
        assert (q == chat.routed(), ended(served, p)) == (True, "session_reset")
        back = await chat.said(f"/resume {p}")
        assert (back["session_id"], ended(served, p), ended(served, q)) == (p, None, "session_switch")
        assert await chat.text("!recall") == f"one of {chat.key}"
        others = {other.key: other.routed() for other in chats}
        assert others == first


async def test_d08_rd5_after_each_rewrite_the_mirror_is_the_transcript(served: Served, chat: Chat) -> None:
    for word in ("one", "two", "three"):
        p = (await chat.said(word))["session_id"]
    for order in ("/undo", "/retry"):
        await chat.said(order)
        await in_line(served, p)
    for word in ("four", "five", "six"):
        await chat.said(word)
    await in_line(served, p)
    before = mirrored(served, p)
    q = (await chat.said("/compress"))["session_id"]
    assert q != p
    await in_line(served, q)
    assert mirrored(served, p) == before
    await chat.said("seven")
    await in_line(served, q)


def mirrored(served: Served, session_id: str) -> list[tuple[str, str]]:
    file = served.folder / "mirrors" / f"{session_id}.jsonl"
    lines = [json.loads(line) for line in file.read_text().splitlines()] if file.exists() else []
    return [(line["role"], line["text"]) for line in lines]


async def in_line(served: Served, session_id: str) -> None:
    """The transcript and its file say the same."""
    wanted = texts(served, session_id)
    assert wanted
    await eventually(lambda: mirrored(served, session_id) == wanted, "the mirror is in line")


async def test_d10_a_reset_is_done_whatever_becomes_of_the_telling(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    recorder = RecordingObserver()
    async with serving(tmp_path / "data", observer=recorder) as served:
        chat = Chat(served)
        p = (await chat.said("one"))["session_id"]
        q = (await chat.said("/reset"))["session_id"]
        assert recorder.about("end", "switch") == [("end", p), ("switch", q, p, "new_session")]
        assert recorder.transcripts[p] == ["one", "echo: one"]
        recorder.deaf_to.add(q)
        await chat.said("two")
        with caplog.at_level(logging.WARNING):
            r = (await chat.said("/reset"))["session_id"]
        assert [record.levelname for record in caplog.records if q in record.getMessage()] == ["WARNING"]
        assert (ended(served, q), chat.routed()) == ("session_reset", r)
        assert recorder.about("switch")[-1] == ("switch", r, q, "new_session")
        assert served.gateway.pool.snapshot().core.census.leased == 0
        assert await chat.text("!recall\nthree") == "\necho: three"


async def test_a22_new_drops_a_question_that_waits_for_a_person(tmp_path: Path) -> None:
    async with serving(tmp_path / "data", pool__permissions="ask") as served:
        chat = Chat(served)
        asking = asyncio.create_task(chat.send(f"!ask {SHORT}"))
        await eventually(lambda: chat.routed() is not None, "the session")
        session = served.gateway.sessions.find(str(chat.routed()))
        assert session is not None
        await eventually(lambda: bool(session.pending_permissions()), "the agent asks")
        await chat.said("/new")
        assert (await asking).json()["status"] == "cancelled"
        assert session.pending_permissions() == []
        assert "no" in (await chat.text("/approve")).lower()


async def test_h19_a_resume_while_nothing_can_be_read_changes_nothing(served: Served, chat: Chat) -> None:
    p = (await chat.said("one"))["session_id"]
    q = (await chat.said("/new"))["session_id"]
    await served.gateway.store.aclose()
    answer: httpx.Response = await chat.send(f"/resume {p}")
    assert answer.status_code == 503
    assert answer.json()["error"]["code"] == "storage_error"
    assert (chat.routed(), ended(served, p), ended(served, q)) == (q, "session_reset", None)
    assert (await served.http.get("/healthz")).status_code == 200
