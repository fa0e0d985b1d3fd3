"""Group A: a key leads to one session, `/new` to a fresh one, and nothing of the old one follows."""

import asyncio
import hashlib
import logging
import random
from pathlib import Path

import httpx
import pytest

from ostler.gateway.chat.session_keys import ChatPlace, key_of
from ostler.gateway.config.data_folder import DATABASE
from ostler.gateway.model.records import NewMessage, NewSession, SessionChange
from tests.support.chats import Chat, ended, texts
from tests.support.database import change
from tests.support.served import SESSION, Served, events_of, serving
from tests.support.waiting import eventually

pytestmark = pytest.mark.long


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
    async with asyncio.timeout(300):
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
@pytest.mark.asyncio(loop_scope="module")
async def test_a26_a_key_that_cannot_be_one_is_refused(untouched: Served, key: str) -> None:
    url = httpx.URL(f"{untouched.base}/v1/sessions/").copy_with(raw_path=f"/v1/sessions/{key}/messages".encode())
    answer = await untouched.http.post(url, json={"text": "hi"})
    assert answer.status_code == 400
    assert answer.json()["error"]["type"] == "invalid_request_error"
    assert untouched.rows("select count(*) from sessions") == [(0,)]


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


async def test_a11_a_restart_between_new_and_the_next_message_keeps_the_fresh_session(tmp_path: Path) -> None:
    async with serving(tmp_path / "data") as served:
        chat = Chat(served)
        await chat.said("old")
        q = (await chat.said("/new"))["session_id"]
    async with serving(tmp_path / "data") as served:
        chat = Chat(served)
        assert (await chat.said("new"))["session_id"] == q
        assert await chat.text("!recall") == "new"


async def test_a12_keys_do_not_touch_each_other(served: Served) -> None:
    chance = random.Random(12)
    admitted: dict[str, list[str]] = {f"key{number}": [] for number in range(50)}
    words: dict[str, list[str]] = {}

    async def live(key: str) -> None:
        chat, session = Chat(served, key), ""
        for turn in range(4):
            if turn and chance.random() < 0.4:
                session = (await chat.said("/reset"))["session_id"]
            word = f"{key}-{turn}"
            said = await chat.said(word)
            assert session in ("", said["session_id"])
            session = said["session_id"]
            admitted[key].append(session)
            words.setdefault(session, []).append(word)

    async with asyncio.TaskGroup() as group:
        for key in admitted:
            group.create_task(live(key))
    for key, sessions in admitted.items():
        assert Chat(served, key).routed() == sessions[-1]
    for session, spoken in words.items():
        assert [text for role, text in texts(served, session) if role == "user"] == spoken
    assert len({session for sessions in admitted.values() for session in sessions}) == len(words)


async def test_a16_a_seat_that_was_given_back_costs_no_history(tmp_path: Path) -> None:
    async with serving(tmp_path / "data", gateway__seats_max=2) as served:
        chats = [Chat(served, key) for key in "abc"]
        for chat in chats:
            await chat.said(f"word {chat.key}")
        running = asyncio.create_task(chats[0].said("!sleep 0.3\nslept"))
        await eventually(lambda: "!sleep 0.3\nslept" in served.prompts(), "a turn runs")
        for chat in chats[1:]:
            assert await chat.text("!recall") == f"word {chat.key}"
        await running
        assert served.gateway.pool.snapshot().core.census.leased <= 2
        assert await chats[0].text("!recall") == "word a\n!sleep 0.3\nslept"


async def test_a16_running_turns_may_be_above_the_cap_which_is_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving(tmp_path / "data", gateway__seats_max=1) as served:
        with caplog.at_level(logging.INFO, "ostler.gateway.turns"):
            await asyncio.gather(*(Chat(served, key).said(f"{key}\n!sleep 0.3") for key in "abc"))
        assert any("seats_max" in record.getMessage() for record in caplog.records)
        assert served.gateway.pool.snapshot().core.census.leased <= 1
        for key in "abc":
            assert await Chat(served, key).text("!recall") == f"{key}\n!sleep 0.3"


async def test_a17_another_model_or_directory_changes_the_process_and_nothing_else(
    served: Served, chat: Chat, tmp_path: Path
) -> None:
    sibling = Chat(served, "sibling")
    await sibling.said("beside")
    p = (await chat.said("one"))["session_id"]
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    await served.gateway.store.update_session(p, SessionChange(cwd=str(elsewhere)))
    moved = await chat.said("!recall")
    assert (moved["session_id"], moved["text"]) == (p, "one")
    assert served.starts() == 2
    await served.gateway.store.update_session(p, SessionChange(model="demo/other"))
    assert await chat.text("!recall") == "one\n!recall"
    assert served.starts() == 3
    assert await sibling.text("!recall") == "beside"
    assert any(str(elsewhere) in str(process.key) for process in served.gateway.pool.snapshot().processes)


async def test_a18_rows_of_somebody_else_are_in_the_next_context(served: Served, chat: Chat) -> None:
    p = (await chat.said("apple"))["session_id"]
    rows = [NewMessage("user", [], "pear"), NewMessage("assistant", [], "a fruit")]
    await served.gateway.store.append(p, rows)
    assert await chat.text("!recall") == "apple\npear"
    seats = served.seats()
    await chat.said("plum")
    assert served.seats() == seats


async def test_a20_a_change_of_the_session_is_in_the_log_as_old_and_new(
    served: Served, chat: Chat, caplog: pytest.LogCaptureFixture
) -> None:
    p = (await chat.said("one"))["session_id"]
    with caplog.at_level(logging.DEBUG, "ostler.gateway.chat"):
        q = (await chat.said("/new"))["session_id"]
    (record,) = [record for record in caplog.records if q in record.getMessage()]
    assert (record.levelname, p in record.getMessage()) == ("DEBUG", True)


async def test_a20_rows_go_to_the_admitted_session_whatever_the_key_does(served: Served, chat: Chat) -> None:
    p = (await chat.said("one"))["session_id"]
    running = asyncio.create_task(chat.said("slow\n!sleep 0.4\nend"))
    await eventually(lambda: any(prompt.startswith("slow") for prompt in served.prompts()), "the turn runs")
    other = await served.gateway.store.create_session(NewSession("sess_other"))
    await served.gateway.store.set_route("/k", other.id)
    assert (await running)["session_id"] == p
    assert (await chat.said("two"))["session_id"] == other.id
    assert [text for role, text in texts(served, p) if role == "user"] == ["one", "slow\n!sleep 0.4\nend"]
    assert [text for _, text in texts(served, other.id)] == ["two", "echo: two"]


async def test_a22_new_drops_the_override_and_what_waits(served: Served, chat: Chat) -> None:
    p = (await chat.said("one"))["session_id"]
    await served.gateway.store.update_session(p, SessionChange(model="demo/other"))
    running = asyncio.create_task(chat.send("!sleep 60"))
    await eventually(lambda: "!sleep 60" in "".join(served.prompts()), "a turn runs")
    waiting = [asyncio.create_task(chat.send(f"follow-up {number}")) for number in range(2)]
    session = served.gateway.sessions.find(p)
    assert session is not None
    await eventually(lambda: session.waiting == 2, "the follow-ups wait")
    q = (await chat.said("/new"))["session_id"]
    assert (await chat.said("two"))["session_id"] == q
    statuses = [(await answer).json()["status"] for answer in [running, *waiting]]
    assert statuses == ["cancelled"] * 3
    assert not any("follow-up" in prompt for prompt in served.prompts())
    assert not any("follow-up" in text for _, text in texts(served, p))
    (model,) = served.rows("select model from sessions where id = ?", q)
    assert model == (None,)


async def test_a25_group_thread_and_direct_chat_are_conversations_of_their_own(served: Served) -> None:
    ann, ben = (key_of(ChatPlace("slack", "7", user, group=True)).text for user in ("ann", "ben"))
    thread = [key_of(ChatPlace("slack", "7", user, group=True, thread="t1")).text for user in ("ann", "ben")]
    direct = key_of(ChatPlace("slack", "ann", "ann")).text
    assert thread[0] == thread[1]
    keys = [ann, ben, thread[0], direct]
    first = {key: (await Chat(served, key).said("hi"))["session_id"] for key in keys}
    assert len(set(first.values())) == 4
    for key in keys:
        await Chat(served, key).said("/new")
        now = {each: Chat(served, each).routed() for each in keys}
        assert [each for each in keys if now[each] != first[each]] == keys[: keys.index(key) + 1]


async def test_a27_ra7_a_lost_route_leads_back_to_what_was_alive(served: Served, chat: Chat) -> None:
    p = (await chat.said("one"))["session_id"]
    await delete_route(served)
    assert (await chat.said("two"))["session_id"] == p
    await chat.said("/new")
    await delete_route(served)
    assert (await chat.said("three"))["session_id"] != p


async def delete_route(served: Served) -> None:
    """Behind the gateway's back."""
    await asyncio.to_thread(change, served.folder / DATABASE, "delete from routing")


async def test_w42_messages_that_come_at_once_are_answered_in_one_session_each_once(served: Served, chat: Chat) -> None:
    answers = await asyncio.gather(*(chat.said(f"word{number}") for number in range(8)))
    assert len({answer["session_id"] for answer in answers}) == 1
    (p,) = {answer["session_id"] for answer in answers}
    roles = [role for role, _ in texts(served, p)]
    assert roles == ["user", "assistant"] * 8
    assert served.rows("select count(*) from sessions") == [(1,)]


async def test_w01a_owners_never_meet_on_one_key(tmp_path: Path) -> None:
    secrets = {name: f"a-key-of-{name}-for-tests" for name in ("ann", "ben")}
    keys = [{"name": name, "sha256": hashlib.sha256(key.encode()).hexdigest()} for name, key in secrets.items()]
    async with serving(tmp_path / "data", auth__keys=keys) as served:
        found = {}
        for name, key in secrets.items():
            served.http.headers["authorization"] = f"Bearer {key}"
            chat = Chat(served)
            found[name] = (await chat.said(f"secret of {name}"))["session_id"]
            assert await chat.text("!recall") == f"secret of {name}"
            listed = (await served.http.get("/v1/sessions")).json()["data"]
            assert [session["id"] for session in listed] == [found[name]]
        foreign = await served.http.get(f"/v1/sessions/{found['ann']}")
        assert foreign.status_code == 404
        hits = (await served.http.get("/v1/sessions", params={"q": "secret"})).json()["data"]
        assert {hit["session_id"] for hit in hits} == {found["ben"]}


async def test_sessions_and_what_was_said_in_them_can_be_read(served: Served, chat: Chat) -> None:
    assert (await served.http.get(chat.path)).status_code == 404
    await chat.said("apple")
    assert (await chat.session())["message_count"] == 2
    said = (await served.http.get(f"{chat.path}/messages", params={"order": "asc"})).json()["data"]
    assert [(message["role"], message["text"]) for message in said] == [("user", "apple"), ("assistant", "echo: apple")]
    (hit,) = (await served.http.get("/v1/sessions", params={"q": "echo"})).json()["data"]
    assert "apple" in hit["snippet"]


@pytest.mark.parametrize(
    "body",
    [{"text": ""}, {"text": " \n"}, {}, {"text": 5}, [], {"text": "x", "attachments": [{"type": "odd"}]}, "x"],
)
@pytest.mark.asyncio(loop_scope="module")
async def test_z5_a_message_that_is_none_changes_nothing(untouched: Served, body: object) -> None:
    answer = await untouched.http.post(f"{Chat(untouched).path}/messages", json=body)
    assert answer.status_code == 400
    assert answer.json()["error"]["message"]
    assert untouched.rows("select count(*) from sessions") == [(0,)]


async def test_a_picture_reaches_the_agent(served: Served, chat: Chat) -> None:
    picture = {"type": "input_image", "image_url": "data:image/png;base64,iVBORw0KGgo="}
    answer = await chat.said("look\n!image", attachments=[picture])
    assert answer["text"] == "echo: look\n8"
    blocks = served.frames("session/prompt")[0]["params"]["prompt"]
    assert [block["type"] for block in blocks] == ["text", "image"]


async def test_a24_a_seat_that_cannot_be_given_back_is_a_warning_and_no_more(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving(tmp_path / "data", "--refuse-close") as served:
        chat = Chat(served)
        p = (await chat.said("old"))["session_id"]
        with caplog.at_level(logging.WARNING):
            q = (await chat.said("/new"))["session_id"]
            await eventually(lambda: bool(served.frames("session/close")), "the seat is given back")
            await eventually(lambda: bool(caplog.records), "the warning")
        assert q != p
        assert [record.levelname for record in caplog.records] == ["WARNING"]
        assert served.gateway.pool.snapshot().core.census.leased == 0
        assert served.gateway.sessions.find(p) is None
        assert await chat.text("!recall\nnew") == "\necho: new"


async def test_what_was_said_is_paged(served: Served) -> None:
    path = "/v1/sessions/pages"
    for number in range(3):
        await served.http.post(f"{path}/messages", json={"text": f"word{number}"})

    async def page(**query: str | int) -> httpx.Response:
        return await served.http.get(f"{path}/messages", params=query)

    whole = (await page(order="asc")).json()["data"]
    assert [said["text"] for said in whole] == [f"{who}word{n}" for n in range(3) for who in ("", "echo: ")]
    first = (await page(order="asc", limit=4)).json()
    assert (first["data"], first["has_more"], first["last_id"]) == (whole[:4], True, whole[3]["id"])
    rest = (await page(order="asc", limit=4, after=first["last_id"])).json()
    assert (rest["data"], rest["has_more"]) == (whole[4:], False)
    assert (await page(limit=2)).json()["data"] == whole[:3:-1]
    for unknown in ("no", "999999", "", "9" * 30):
        assert (await page(after=unknown)).status_code == 400


async def test_n50_the_answer_that_is_being_given_can_be_joined_from_its_beginning(served: Served, chat: Chat) -> None:
    async def joined() -> list[dict[str, object]]:
        answer = await served.http.get(f"{chat.path}/messages?stream=true")
        assert answer.headers["content-type"].startswith("text/event-stream")
        return events_of(answer.text)

    assert (await served.http.get(f"{chat.path}/messages?stream=true")).status_code == 404
    await chat.said("first")
    assert await joined() == []
    first = asyncio.create_task(chat.stream("begun\n!sleep 0.3\nended"))
    await eventually(lambda: len(served.prompts()) == 2, "the turn runs")
    assert await joined() == await first
    assert await joined() == []
    assert (await served.http.get(f"{chat.path}/messages?stream=maybe")).status_code == 400
