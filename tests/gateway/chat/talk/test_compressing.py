"""/compress: one prompt, a summary, a session that begins with it; or nothing at all."""

import asyncio
from pathlib import Path

import pytest

from ostler.demo.launch import command_line
from ostler.gateway.model.observers import SwitchReason
from tests.support.chats import Chat, ended, texts
from tests.support.served import Served, serving
from tests.support.talks import Heard, Since, locked, rows, talked
from tests.support.waiting import eventually

pytestmark = pytest.mark.asyncio(loop_scope="module")
WORDS = ("w1", "w2", "w3", "w4")


async def test_d12_b08_compress_goes_on_from_summary_and_tail(
    chat: Chat, served: Served, heard: Heard, since: Since
) -> None:
    parent = await talked(chat, *WORDS)
    await chat.said("/title d12")
    before = len(heard.told)
    said = await chat.said("/compress")
    child = chat.routed()
    assert child is not None
    assert said["session_id"] == child != parent
    assert [item["type"] for item in said["items"]] == ["session"]
    assert heard.told[before:] == [("switched", child, parent, SwitchReason.COMPRESSION)]
    assert served.rows("select parent_id, origin, title from sessions where id = ?", child) == [
        (parent, "compression", "d12 #2")
    ]
    assert ended(served, parent) == "compression"
    first, *tail = texts(served, child)
    assert first[0] == "system"
    assert "Sum up our whole conversation" in first[1]
    assert tail == texts(served, parent)[4:]
    assert await chat.text("!recall") == "w3\nw4"
    assert "w1" not in since.prompts[-1]
    assert "summary of the conversation" in since.prompts[-1]


async def test_b17_b25_d12_compress_is_one_prompt_that_leaves_no_trace(
    chat: Chat, served: Served, heard: Heard, since: Since
) -> None:
    parent = await talked(chat, *WORDS)
    told = len(heard.told)
    await chat.said("/compress")
    assert len(since.prompts) == len(WORDS) + 1
    (asked,) = since.prompts[len(WORDS) :]
    assert asked.startswith("Sum up")
    assert len(since.seats) == 1
    assert rows(served, parent, active=None) == [text for word in WORDS for text in (word, f"echo: {word}")]
    assert {each[0] for each in heard.told[told:]} == {"switched"}
    await chat.said("w5")
    assert len(since.seats) == 2


async def test_d12_below_four_messages_it_is_refused(chat: Chat, served: Served, heard: Heard, since: Since) -> None:
    assert "too little" in await chat.text("/compress")
    session = await talked(chat, "w1")
    told = heard.of(session)
    assert "too little" in await chat.text("/compress")
    assert (chat.routed(), heard.of(session)) == (session, told)
    assert since.prompts == ["w1"]


async def test_d12_a_preview_writes_and_asks_nothing(chat: Chat, served: Served, since: Since) -> None:
    session = await talked(chat, *WORDS)
    said = await chat.text("/compress --preview")
    assert "4 messages" in said
    assert "Nothing was done" in said
    assert (chat.routed(), len(since.prompts), len(rows(served, session))) == (session, 4, 8)
    assert "/compress --preview" in await chat.text("/compress now")


async def test_d12_b08_an_agent_that_fails_changes_and_tells_nothing(
    chat: Chat, served: Served, heard: Heard, since: Since
) -> None:
    session = await talked(chat, *WORDS)
    await chat.said("/model qwen-acp")
    told = len(heard.told)
    said = await chat.text("/compress")
    assert "Nothing was compressed" in said
    assert "goes on as it was" in said
    assert (chat.routed(), ended(served, session), heard.told[told:]) == (session, None, [])
    await chat.said("/model demo")
    assert await chat.text("!recall") == "\n".join(WORDS)


async def test_d12_d17_a_stopped_summary_changes_nothing(chat: Chat, served: Served, heard: Heard) -> None:
    session = await talked(chat, *WORDS)
    await chat.said("/model acp")
    told = len(heard.told)
    command = asyncio.create_task(chat.text("/compress"))
    at_work = served.gateway.sessions.find(session)
    assert at_work is not None
    await eventually(lambda: at_work.turn is not None, "the agent is asked, which takes long to start")
    assert "at work" in await chat.text("/status")
    assert await chat.text("/stop") == "Stopped."
    assert "it was stopped" in await command
    assert (chat.routed(), ended(served, session), heard.told[told:]) == (session, None, [])


async def test_a16_d12_a_session_that_is_summed_up_does_not_rest(tmp_path: Path) -> None:
    slow = {"providers__acp__command": command_line(["--boot-delay", "60"]), "providers__acp__approval": "ask"}
    async with serving(tmp_path / "data", gateway__seats_max=1, **slow) as served:
        chat, sessions = Chat(served, "a"), served.gateway.sessions
        at_work = sessions.find(await talked(chat, *WORDS))
        assert at_work is not None
        await chat.said("/model acp")
        command = asyncio.create_task(chat.text("/compress"))
        await eventually(lambda: at_work.turn is not None, "the agent is asked, which takes long to start")
        assert await Chat(served, "b").text("hello") == "echo: hello"
        await chat.text("/stop")
        assert "it was stopped" in await command
        assert await Chat(served, "b").text("!recall") == "hello"


async def test_d12_rd3_a_write_that_fails_leaves_the_old_session(chat: Chat, served: Served, heard: Heard) -> None:
    session = await talked(chat, *WORDS)
    told = len(heard.told)
    with locked(served):
        said = await chat.text("/compress")
    assert "Nothing was compressed" in said
    assert "locked" in said
    assert (chat.routed(), ended(served, session), heard.told[told:]) == (session, None, [])
    assert await chat.text("!recall") == "\n".join(WORDS)


async def test_d21_what_was_compressed_is_still_found(chat: Chat) -> None:
    await talked(chat, "cherimoya", "w2", "w3")
    await chat.said("/compress")
    assert "cherimoya" in (await chat.text("/sessions cherimoya")).replace("[", "").replace("]", "")


async def test_b32_a_compressed_session_is_resumed_at_its_live_end(chat: Chat, served: Served) -> None:
    parent = await talked(chat, *WORDS)
    await chat.said("/compress")
    child = chat.routed()
    await chat.said("/new")
    await chat.said(f"/resume {parent}")
    assert chat.routed() == child
    assert ended(served, parent) == "compression"


async def test_h08_compress_twice_keeps_every_session(chat: Chat, served: Served) -> None:
    first = await talked(chat, *WORDS)
    await chat.said("/title h08")
    await chat.said("/compress")
    second = await talked(chat, "w5", "w6")
    before = rows(served, second)
    await chat.said("/compress")
    assert rows(served, second) == before
    assert len(rows(served, first)) == 8
    assert "h08 #3" in await chat.text("/title")
