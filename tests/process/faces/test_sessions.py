"""Group A: a key leads to one session, `/new` to a fresh one, and nothing of the old one follows."""

import asyncio

import httpx
import pytest

from tests.support.chats import Chat, ended, texts
from tests.support.served import SESSION, Served
from tests.support.waiting import eventually


async def test_a01_a02_a07_a08_new_leaves_everything_behind(served: Served, chat: Chat) -> None:
    for number in range(1, 4):
        await chat.said(f"old{number}")
    p = chat.routed()
    assert p is not None
    before = texts(served, p)
    said = await chat.said("/new")
    assert said["kind"] == "command"
    assert await chat.text("new1") == "echo: new1"
    assert served.prompts()[-1] == "new1"
    q = chat.routed()
    assert q is not None
    assert q != p
    assert (texts(served, p), ended(served, p)) == (before, "session_reset")
    assert [role for role, _ in texts(served, q)] == ["user", "assistant"]
    await chat.said("new2")
    assert await chat.text("!recall") == "new1\nnew2"
    assert len(texts(served, q)) == 6


async def test_a09_without_a_reset_one_seat_hears_only_what_is_new(served: Served, chat: Chat) -> None:
    for number in range(5):
        await chat.said(f"word{number}")
    assert served.seats() == 1
    assert served.prompts() == [f"word{number}" for number in range(5)]


async def test_a21_new_without_a_session_and_new_twice(served: Served, chat: Chat) -> None:
    first = await chat.said("/new")
    assert "begins" in first["text"]
    second = await chat.said("/new")
    assert first["session_id"] != second["session_id"] == chat.routed()
    assert ended(served, first["session_id"]) == "session_reset"


async def test_a10_a23_ra3_a_turn_that_was_left_ends_in_its_own_session(served: Served, chat: Chat) -> None:
    late = asyncio.create_task(chat.send("begun\n!hang"))
    await eventually(lambda: bool(served.prompts()), "the old turn runs")
    p = chat.routed()
    async with asyncio.timeout(1):
        await chat.said("/new")
    assert await chat.text("m2") == "echo: m2"
    q = chat.routed()
    assert q is not None
    assert p is not None
    await eventually(lambda: bool(served.frames("session/cancel")), "the agent is told")
    late.cancel()
    assert texts(served, q) == [("user", "m2"), ("assistant", "echo: m2")]
    assert texts(served, p)[0] == ("user", "begun\n!hang")
    assert await chat.text("!recall") == "m2"


@pytest.mark.parametrize("key", ["", "x" * 257, "a%00b", "a%0Ab", "%2e%2e", "a%2F..%2Fb"])
async def test_a26_a_key_that_cannot_be_one_is_refused(served: Served, key: str) -> None:
    url = httpx.URL(f"{served.base}/v1/sessions/").copy_with(raw_path=f"/v1/sessions/{key}/messages".encode())
    answer = await served.http.post(url, json={"text": "hi"})
    assert answer.status_code == 400
    assert answer.json()["error"]["type"] == "invalid_request_error"
    assert served.rows("select count(*) from sessions") == [(0,)]


@pytest.mark.parametrize("key", ["team:alice", "a/b", "ä ö", "x" * 256])
async def test_a26_any_other_key_works(served: Served, key: str) -> None:
    chat = Chat(served, key)
    answer = await chat.send("hi")
    assert answer.status_code == 200
    assert (await chat.session())["id"] == answer.headers[SESSION]
    assert (await chat.session())["key"] == key


async def test_rd8_d18_unknown_words_are_answered_and_listed_ones_are_known(served: Served, chat: Chat) -> None:
    said = await chat.said("/hlep")
    assert said["kind"] == "notice"
    assert "/help" in said["text"]
    listed = (await chat.text("/help")).splitlines()
    for line in listed:
        answer = await chat.said(line.partition(":")[0].partition(" ")[0])
        assert "There is no command" not in answer["text"]
    assert served.prompts() == []


async def test_d20_a_slash_inside_a_message_is_text(served: Served, chat: Chat) -> None:
    assert await chat.text("see /new in the manual") == "echo: see /new in the manual"
    assert await chat.text("/etc/hosts is a file") == "echo: /etc/hosts is a file"


async def test_a_streamed_answer_is_the_same_as_a_whole_one(served: Served, chat: Chat) -> None:
    events = await chat.stream("!stream 5")
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    assert events[0]["type"] == "session.message.started"
    last = events[-1]
    assert last["type"] == "session.message.completed"
    deltas = [event["text"] for event in events if event["type"] == "session.message.delta"]
    assert "".join(deltas) == last["message"]["text"]
    assert (last["message"]["object"], last["message"]["kind"]) == ("session.message", "answer")
    (command,) = await chat.stream("/help")
    assert command["message"]["kind"] == "command"
