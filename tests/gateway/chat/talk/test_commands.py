"""The commands that look, name and stop; and that every command of /help is there."""

import asyncio
import re

import pytest

from tests.support.chats import Chat, texts
from tests.support.served import Served
from tests.support.talks import Since, locked, rows, talked
from tests.support.waiting import eventually

pytestmark = pytest.mark.asyncio(loop_scope="module")
WANTED = "new reset resume sessions branch retry undo title compress status stop model approve deny history export help"


async def test_d18_rd8_every_listed_command_answers(chat: Chat, since: Since) -> None:
    help_text = await chat.text("/help")
    names = re.findall(r"^/([a-z]+)", help_text, re.MULTILINE) + re.findall(r"also /([a-z]+)", help_text)
    assert set(names) >= set(WANTED.split())
    for name in names:
        said = await chat.said(f"/{name}")
        assert said["kind"] == "command", name
        assert said["text"], name
        assert "no command" not in said["text"], name
        assert f"/{name}" in await chat.text(f"/help {name}")
    assert since.prompts == []


async def test_z2_commands_are_streamed_as_they_are_answered(chat: Chat) -> None:
    await talked(chat, "u1", "u2\n!recall")
    *told, last = await chat.stream("/retry")
    assert last["type"] == "session.message.completed"
    assert last["message"]["text"] == "echo: u2\nu1"
    assert "".join(event["text"] for event in told if event["type"].endswith("delta")) == "echo: u2\nu1"
    (undone,) = await chat.stream("/undo")
    assert (undone["message"]["kind"], "u2" in undone["message"]["text"]) == ("command", True)


@pytest.mark.parametrize(("typed", "meant"), [("/resum x", "/resume"), ("/hlep", "/help"), ("/titel", "/title")])
async def test_an_unknown_word_is_answered_with_the_nearest(chat: Chat, since: Since, typed: str, meant: str) -> None:
    said = await chat.said(typed)
    assert said["kind"] == "notice"
    assert meant in said["text"]
    assert since.prompts == []


@pytest.mark.parametrize("text", ["see /new in the manual", "a\n/undo", "/etc/hosts is a file", "//new", "/ new"])
async def test_d20_a_slash_inside_is_text(chat: Chat, since: Since, text: str) -> None:
    assert (await chat.said(text))["kind"] == "answer"
    assert since.prompts == [text]


async def test_d15_title_shows_sets_trims_and_refuses(chat: Chat, served: Served) -> None:
    assert "no title" in await chat.text("/title")
    session = await talked(chat, "u1")
    await chat.said("/title   A\u0007 fine \t title  ")
    assert "A fine title" in await chat.text("/title")
    await chat.said(f"/title d15 {'x' * 200}")
    ((kept,),) = served.rows("select title from sessions where id = ?", session)
    assert len(kept) == 100
    for empty in ('""', "[ ]", "\u0007\u0008 \u0007"):
        assert "not a title" in await chat.text(f"/title {empty}")
    assert served.rows("select title from sessions where id = ?", session) == [(kept,)]
    await chat.said("/new")
    assert session in await chat.text(f"/title {kept}")
    assert "no title" in await chat.text("/title")


async def test_d17_stop_ends_this_turn_only_and_keeps_what_was_said(chat: Chat, served: Served, since: Since) -> None:
    assert "Nothing is running" in await chat.text("/stop")
    other = Chat(served, f"{chat.key} other")
    await talked(chat, "u1")
    await talked(other, "o1")
    async with asyncio.TaskGroup() as group:
        mine = group.create_task(chat.said("u2\n!late"))
        theirs = group.create_task(other.said("o2\n!late"))
        await eventually(lambda: len(since.prompts) == 4, "both turns run")
        cancels = len(served.frames("session/cancel"))
        assert await chat.text("/stop") == "Stopped."
        assert (await mine)["status"] == "cancelled"
        assert not theirs.done()
        assert len(served.frames("session/cancel")) == cancels + 1
        await other.said("/stop")
    session = chat.routed()
    assert session is not None
    assert "echo: u2" in rows(served, session)[-1]
    assert await chat.text("!recall") == "u1\nu2\n!late"


async def test_status_says_where_it_stands(chat: Chat) -> None:
    assert "No session yet" in await chat.text("/status")
    session = await talked(chat, "u1")
    await chat.said("/title Status Quo")
    said = await chat.text("/status")
    for fact in (session, "Status Quo", "Messages: 2, 1 turn", "demo/demo", "work"):
        assert fact in said


async def test_model_shows_finds_and_refuses(chat: Chat, served: Served, since: Since) -> None:
    session = await talked(chat, "u1")
    assert "demo/demo" in await chat.text("/model")
    for wrong, hint in (("nothing", "no model"), ("demo/demo/x y", "from the next"), ("demmo/demo", "Did you mean")):
        assert hint in await chat.text(f"/model {wrong}")
    await chat.said("/model dem")
    assert chat.routed() == session
    assert await chat.text("!recall") == "u1"


async def test_a17_model_and_directory_change_with_the_history(chat: Chat, served: Served) -> None:
    session = await talked(chat, "u1")
    folder = served.folder / "elsewhere"
    folder.mkdir(exist_ok=True)
    assert str(folder) in await chat.text(f"/cwd {folder}")
    assert str(folder) in await chat.text("/status")
    assert await chat.text("!recall") == "u1"
    assert chat.routed() == session
    assert "cannot be used" in await chat.text("/cwd /nowhere/at/all")
    assert str(folder) in await chat.text("/cwd")


async def test_history_shows_the_newest_and_how_many_are_before(chat: Chat) -> None:
    assert "Nothing was said" in await chat.text("/history")
    await talked(chat, "u1", "u2", "u3")
    assert (await chat.text("/history")).splitlines()[:2] == ["you: u1", "agent: echo: u1"]
    assert await chat.text("/history 2") == "(4 earlier messages)\nyou: u3\nagent: echo: u3"
    for wrong in ("0", "x", "-1"):
        assert "Use /history" in await chat.text(f"/history {wrong}")


async def test_export_gives_the_transcript_in_both_forms(chat: Chat, served: Served) -> None:
    assert "Nothing was said" in await chat.text("/export")
    session = await talked(chat, "u1\n# no heading")
    markdown = await chat.text("/export")
    assert "> # no heading" in markdown
    lines = (await chat.text("/export jsonl")).splitlines()
    assert len(lines) == 3
    assert session in lines[0]
    assert "Use /export" in await chat.text("/export pdf")


async def test_sessions_lists_all_and_marks_the_present_one(chat: Chat) -> None:
    first = await talked(chat, "s1")
    await chat.said("/new")
    second = await talked(chat, "s2")
    lines = (await chat.text("/sessions")).splitlines()
    assert second in lines[0]
    assert "this one" in lines[0]
    assert first in lines[1]
    await chat.said("/resume 2")
    assert chat.routed() == first


async def test_approve_and_deny_without_a_question_say_so(chat: Chat) -> None:
    for command in ("/approve", "/deny", "/approve all", "/deny 3"):
        assert "asks for nothing" in await chat.text(command)


async def test_rd3_an_undo_that_cannot_be_stored_leaves_all_and_says_so(chat: Chat, served: Served) -> None:
    session = await talked(chat, "u1", "u2")
    with locked(served):
        refused = await chat.send("/undo")
    assert "locked" in refused.text
    assert texts(served, session)[-1] == ("assistant", "echo: u2")
    assert await chat.text("!recall") == "u1\nu2"


async def test_h16_looking_works_while_nothing_can_be_stored(chat: Chat, served: Served) -> None:
    await talked(chat, "u1")
    with locked(served):
        assert "u1" in await chat.text("/history")
        assert "u1" in await chat.text("/export")
        assert "1 turn" in await chat.text("/status")
