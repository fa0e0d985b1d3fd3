"""Group D: /undo and /retry change what the agent knows, and lose nothing that was said."""

import asyncio

import pytest

from ostler.gateway.chat.question import question_of
from ostler.gateway.model.observers import SwitchReason
from ostler.gateway.model.permits import PermissionRule
from ostler.gateway.turns.answer import AnswerStream
from ostler.pool.keys import TransportKey
from tests.support.chats import Chat, texts
from tests.support.served import Served
from tests.support.talks import Heard, Since, rows, talked
from tests.support.waiting import eventually

pytestmark = pytest.mark.asyncio(loop_scope="module")
PIXEL = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="


async def test_d01_retry_asks_once_more_in_the_same_context(chat: Chat, served: Served, since: Since) -> None:
    session = await talked(chat, "u1", "u2\n!recall")
    again = await chat.said("/retry")
    assert (again["kind"], again["text"], again["session_id"]) == ("answer", "echo: u2\nu1", session)
    assert len(since.prompts) == 3
    assert since.prompts[-1].endswith("\nu2\n!recall")
    assert since.prompts[-1].count("u2") == 1
    assert texts(served, session) == [
        ("user", "u1"), ("assistant", "echo: u1"), ("user", "u2\n!recall"), ("assistant", "echo: u2\nu1"),
    ]  # fmt: skip
    assert rows(served, session, active=False) == ["echo: u2\nu1"]
    assert await chat.text("!recall") == "u1\nu2\n!recall"


async def test_d02_d21_undo_takes_the_turn_out_of_everything_but_the_database(
    chat: Chat, served: Served, since: Since
) -> None:
    session = await talked(chat, "apricot", "blackberry")
    undone = await chat.said("/undo")
    assert "blackberry" in undone["text"]
    assert rows(served, session, active=False) == ["blackberry", "echo: blackberry"]
    assert rows(served, session) == ["apricot", "echo: apricot"]
    assert await chat.text("!recall") == "apricot"
    assert "blackberry" not in since.prompts[-1]
    assert "Nothing is found" in await chat.text("/sessions blackberry")
    assert "apricot" in await chat.text("/sessions apricot")


@pytest.mark.parametrize(("words", "left"), [("2", ["u1"]), ("99", []), ("0", ["u1", "u2"]), ("-1", ["u1", "u2"])])
async def test_d03_undo_takes_back_as_many_turns_as_there_are(
    chat: Chat, served: Served, words: str, left: list[str]
) -> None:
    session = await talked(chat, "u1", "u2", "u3")
    said = await chat.text(f"/undo {words}")
    assert said.startswith(f"{3 - len(left)} turn")
    assert [text for role, text in texts(served, session) if role == "user"] == left


@pytest.mark.parametrize("words", ["x", "1.5", "2 3", "¹", "--1"])
async def test_d03_undo_of_what_is_no_number_changes_nothing(chat: Chat, served: Served, words: str) -> None:
    session = await talked(chat, "u1")
    assert "whole number" in await chat.text(f"/undo {words}")
    assert rows(served, session) == ["u1", "echo: u1"]


async def test_d03_undo_with_nothing_to_undo_says_so(chat: Chat) -> None:
    assert "nothing" in await chat.text("/undo")
    await talked(chat, "u1")
    await chat.said("/undo")
    assert "nothing" in await chat.text("/undo")


async def test_d04_undo_takes_a_call_and_its_result_together(chat: Chat, served: Served) -> None:
    session = await talked(chat, "u1", "!call nothing {}", "u3")
    await chat.said("/undo 2")
    assert rows(served, session) == ["u1", "echo: u1"]
    ((stored,),) = served.rows("select count(*) from messages where session_id = ?", session)
    assert stored == 6


async def test_d05_retry_with_nothing_to_ask_again_says_so(chat: Chat, since: Since) -> None:
    assert "no question" in await chat.text("/retry")
    assert since.prompts == []


async def test_d05_a_failing_agent_leaves_the_question_and_retry_works_again(
    chat: Chat, served: Served, since: Since
) -> None:
    session = await talked(chat, "u1", "u2\n!recall")
    await chat.said("/model qwen-acp")
    failed = await chat.send("/retry")
    assert failed.status_code >= 500
    assert rows(served, session) == ["u1", "echo: u1", "u2\n!recall"]
    await chat.said("/model demo")
    assert await chat.text("/retry") == "echo: u2\nu1"
    assert rows(served, session) == ["u1", "echo: u1", "u2\n!recall", "echo: u2\nu1"]


async def test_d05_an_agent_that_dies_in_the_answer_leaves_the_question(chat: Chat, served: Served) -> None:
    session = await talked(chat, "u1")
    assert (await chat.send("u2\n!die")).status_code == 200
    for _ in range(2):
        assert (await chat.said("/retry"))["status"] == "failed"
    assert [text for role, text in texts(served, session) if role == "user"] == ["u1", "u2\n!die"]


async def test_d07_no_command_destroys_what_was_said(chat: Chat, served: Served) -> None:
    session = await talked(chat, "u1", "u2", "u3")
    await chat.said("/undo")
    await chat.said("/retry")
    assert rows(served, session, active=None) == ["u1", "echo: u1", "u2", "echo: u2", "u3", "echo: u3", "echo: u2"]
    await chat.said("/compress")
    child = chat.routed()
    assert child is not None
    await chat.said("/retry")
    assert rows(served, session) == ["u1", "echo: u1", "u2", "echo: u2"]
    assert rows(served, child, active=False) == ["echo: u2"]


@pytest.mark.parametrize("command", ["/undo", "/retry"])
async def test_d09_a_seat_that_heard_what_was_dropped_is_left_its_process_stays(
    chat: Chat, served: Served, since: Since, command: str
) -> None:
    starts = served.starts()
    await talked(chat, "u1", "u2")
    (old,) = since.seats
    await chat.said(command)
    await chat.said("u3")
    later = [frame["params"]["sessionId"] for frame in since.frames[2:]]
    assert old not in later
    assert served.starts() == starts


async def test_d13_a_transcript_is_not_changed_under_a_running_turn(chat: Chat, served: Served, since: Since) -> None:
    session = await talked(chat, "u0", "u1")
    running = asyncio.create_task(chat.said("u2\n!late"))
    await eventually(lambda: len(since.prompts) == 3, "the turn runs")
    for command in ("/undo", "/retry", "/compress", "/branch", "/model demo"):
        assert "running" in await chat.text(command), command
    assert await chat.text("/stop") == "Stopped."
    assert (await running)["status"] == "cancelled"
    assert rows(served, session) == ["u0", "echo: u0", "u1", "echo: u1", "u2\n!late", "echo: u2\nwaiting"]
    assert "u2" in await chat.text("/undo")
    assert rows(served, session) == ["u0", "echo: u0", "u1", "echo: u1"]


async def test_d13_rd6_a_question_that_is_no_longer_the_last_one_is_not_asked_again(
    chat: Chat, served: Served, since: Since
) -> None:
    session = await talked(chat, "u1", "u2")
    first, *_ = await served.gateway.store.history(session)
    key = TransportKey("demo", "demo", str(served.folder / "work"))
    answer = AnswerStream("smsg_d13")
    sessions = served.gateway.sessions
    turn = sessions.start(sessions.of(session, ""), question_of(first).ask(key, PermissionRule.DENY), answer)
    await turn.over.wait()
    assert answer.end is not None
    assert answer.end.outcome.code == "conversation_moved"
    assert rows(served, session) == ["u1", "echo: u1", "u2", "echo: u2"]
    assert len(since.prompts) == 2


async def test_d14_retry_sends_the_same_parts(chat: Chat, since: Since) -> None:
    image = {"type": "input_image", "image_url": f"data:image/png;base64,{PIXEL}"}
    first = await chat.said("look\n!image", attachments=[image])
    assert await chat.text("/retry") == first["text"]
    asked, again = ([*map(dict, frame["params"]["prompt"])] for frame in since.frames)
    assert asked == again
    assert [block["type"] for block in again] == ["text", "image"]


async def test_b09_undo_tells_of_a_rewind_once(chat: Chat, heard: Heard) -> None:
    session = await talked(chat, "u1", "u2", "u3")
    begun = heard.of(session)
    await chat.said("/undo 2")
    assert heard.of(session)[len(begun) :] == [("rewound", session)]
    await chat.said("/undo x")
    await chat.said("/undo 9")
    await chat.said("/undo")
    assert heard.of(session)[len(begun) :] == [("rewound", session)] * 2


async def test_b17_rb06_only_retry_speaks_to_the_agent(chat: Chat, since: Since) -> None:
    await talked(chat, "u1", "u2")
    for command in (
        "/undo",
        "/title a b17",
        "/history",
        "/export",
        "/status",
        "/sessions",
        "/resume",
        "/branch",
        "/new",
    ):
        await chat.said(command)
    assert len(since.prompts) == 2


@pytest.mark.parametrize("command", ["/new", "/reset"])
async def test_b05_d10_reset_tells_the_end_with_the_real_transcript(
    chat: Chat, served: Served, heard: Heard, command: str
) -> None:
    left = await talked(chat, "u1", "u2")
    before = len(heard.told)
    fresh = (await chat.said(command))["session_id"]
    assert heard.told[before:] == [
        ("ended", left, ("u1", "echo: u1", "u2", "echo: u2")),
        ("switched", fresh, left, SwitchReason.NEW),
    ]


async def test_d11_commands_act_on_the_session_of_the_very_place(served: Served) -> None:
    keys = ("telegram:direct:7", "telegram:group:8:user:1", "telegram:group:8:user:2", "telegram:thread:8:3")
    places = [Chat(served, key) for key in keys]
    sessions = [await talked(place, f"one {place.key}", f"two {place.key}") for place in places]
    assert len(set(sessions)) == len(places)
    for place, session in zip(places, sessions, strict=True):
        assert f"two {place.key}" in await place.text("/undo")
        assert (await place.said("/retry"))["session_id"] == session
        await place.said(f"/title d11 {place.key}")
        await place.said("/reset")
        assert (await place.said(f"/resume d11 {place.key}"))["session_id"] == session
        assert await place.text("!recall") == f"one {place.key}"
    assert [place.routed() for place in places] == sessions
