"""Groups A and B: sessions that begin anew by themselves, with the clock on the wall in our hands."""

import asyncio
import logging
from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ostler.gateway.chat.resets.expiry import Expiry
from ostler.gateway.chat.resets.policies import policies_of
from ostler.gateway.config.settings import ResetSettings
from ostler.gateway.model.records import NewMessage
from ostler.gateway.model.store import Store
from ostler.gateway.stores.exchange import finalized_in
from tests.gateway.chat.test_resets import at
from tests.support.chats import Chat, ended, texts
from tests.support.recorder import RecordingObserver, Wall
from tests.support.served import Served, serving
from tests.support.waiting import eventually

HALF_HOUR = 1800.0
IDLE: dict[str, Any] = {"resets__mode": "idle", "resets__idle": HALF_HOUR}
TELEGRAM = {"telegram": {"mode": "idle", "idle": 600}}
NEXT_DAY = 86_400.0


async def test_a03_rows_and_context_follow_an_idle_reset(tmp_path: Path) -> None:
    wall = Wall()
    async with serving(tmp_path / "data", wall=wall, **IDLE) as served:
        chat = Chat(served)
        p = (await chat.said("one"))["session_id"]
        wall.now += HALF_HOUR
        assert (await chat.said("two"))["session_id"] == p
        wall.now += HALF_HOUR + 1
        q = (await chat.said("three"))["session_id"]
        assert q != p
        assert (ended(served, p), ended(served, q)) == ("idle", None)
        assert served.prompts()[-1] == "three"
        assert await chat.text("!recall") == "three"
        assert [text for _, text in texts(served, p)] == ["one", "echo: one", "two", "echo: two"]


async def test_a04_a_daily_reset_comes_at_its_hour_and_not_before(tmp_path: Path) -> None:
    wall = Wall(at("2024-05-10 03:59"))
    zone = {"resets__mode": "daily", "resets__at_hour": 4, "resets__timezone": "Europe/Berlin"}
    async with serving(tmp_path / "data", wall=wall, **zone) as served:
        chat = Chat(served)
        p = (await chat.said("evening"))["session_id"]
        wall.now = at("2024-05-10 04:00")
        q = (await chat.said("morning"))["session_id"]
        assert (q != p, ended(served, p)) == (True, "daily")
        wall.now = at("2024-05-11 03:59")
        assert (await chat.said("night"))["session_id"] == q


async def test_a05_without_a_configuration_a_session_is_for_ever(tmp_path: Path) -> None:
    wall = Wall()
    async with serving(tmp_path / "data", wall=wall) as served:
        chat = Chat(served)
        p = (await chat.said("one"))["session_id"]
        wall.now += 400 * NEXT_DAY
        assert await served.gateway.expiry.check() == 0
        assert (await chat.said("two"))["session_id"] == p


async def test_a06_a_platform_has_a_policy_of_its_own(tmp_path: Path) -> None:
    wall = Wall()
    async with serving(tmp_path / "data", wall=wall, resets__platforms=TELEGRAM) as served:
        telegram, web = Chat(served, "telegram:direct:7"), Chat(served, "web")
        before = [(await chat.said("hi"))["session_id"] for chat in (telegram, web)]
        wall.now += 3600
        after = [(await chat.said("hi"))["session_id"] for chat in (telegram, web)]
        assert [old == new for old, new in zip(before, after, strict=True)] == [False, True]


async def test_a13_a_reset_is_told_once_and_only_where_it_is_news(tmp_path: Path) -> None:
    wall, quiet = Wall(), {"cron": {"notify": False}}
    async with serving(tmp_path / "data", wall=wall, resets__platforms=quiet, **IDLE) as served:
        chat, cron, empty = Chat(served), Chat(served, "cron:direct:1"), Chat(served, "empty")
        p = (await chat.said("one"))["session_id"]
        await cron.said("one")
        await empty.said("/new")
        wall.now += NEXT_DAY
        told = await chat.said("two")
        assert [item["type"] for item in told["items"]] == ["notice", "message"]
        assert p in told["items"][0]["text"]
        assert told["text"] == "echo: two"
        assert [item["type"] for item in (await chat.said("three"))["items"]] == ["message"]
        for other in (cron, empty):
            assert [item["type"] for item in (await other.said("two"))["items"]] == ["message"]
        await chat.said("/new")
        events = await chat.stream("four")
        assert "session.message.notice" not in {event["type"] for event in events}
        wall.now += NEXT_DAY
        events = await chat.stream("five")
        assert [event["type"] for event in events[:2]] == ["session.message.started", "session.message.notice"]


async def test_a19_b18_a_running_turn_is_not_cut_and_counts_as_activity(tmp_path: Path) -> None:
    wall = Wall()
    async with serving(tmp_path / "data", wall=wall, **IDLE) as served:
        chat = Chat(served)
        running = asyncio.create_task(chat.said("long\n!sleep 0.6\nend"))
        await eventually(lambda: bool(served.prompts()), "the turn runs")
        wall.now += HALF_HOUR + 1
        assert await served.gateway.expiry.check() == 0
        waiting = asyncio.create_task(chat.said("behind it"))
        p = (await running)["session_id"]
        assert (await waiting)["session_id"] == p
        wall.now += HALF_HOUR
        assert (await chat.said("after"))["session_id"] == p
        assert "long\n" in texts(served, p)[0][1]


async def test_b18_b21_an_idle_session_is_finalised_once_and_never_comes_back(tmp_path: Path) -> None:
    wall, recorder = Wall(), RecordingObserver()
    async with serving(tmp_path / "data", wall=wall, observer=recorder, **IDLE) as served:
        chat = Chat(served)
        p = (await chat.said("one"))["session_id"]
        wall.now += HALF_HOUR + 1
        passes = [await served.gateway.expiry.check() for _ in range(4)]
        assert passes == [1, 0, 0, 0]
        assert recorder.about("end") == [("end", p)]
        assert recorder.transcripts[p] == ["one", "echo: one"]
        assert served.rows("select end_reason, expiry_finalized from sessions") == [("idle", 1)]
        assert served.gateway.pool.snapshot().core.census.leased == 0
        assert served.prompts() == ["one"]
        told = await chat.said("two")
        q = told["session_id"]
        assert told["items"][0]["type"] == "notice"
        assert served.rows("select expiry_finalized from sessions where id = ?", q) == [(0,)]
        assert ended(served, p) == "idle"
        assert recorder.about("end", "switch") == [
            ("end", p),
            ("switch", q, p, "new_session"),
        ]


async def test_b14_a_reset_by_a_message_tells_the_whole_transcript_before_the_switch(tmp_path: Path) -> None:
    wall, recorder = Wall(), RecordingObserver()
    async with serving(tmp_path / "data", wall=wall, observer=recorder, **IDLE) as served:
        chat = Chat(served)
        p = (await chat.said("one"))["session_id"]
        session = served.gateway.sessions.find(p)
        assert session is not None
        session.release_seat()
        wall.now += HALF_HOUR + 1
        q = (await chat.said("two"))["session_id"]
        assert await served.gateway.expiry.check() == 0
        assert recorder.about("end", "switch") == [("end", p), ("switch", q, p, "new_session")]
        assert recorder.transcripts[p] == ["one", "echo: one"]


async def test_a19_what_was_used_during_a_pass_is_not_over(tmp_path: Path) -> None:
    wall, recorder = Wall(), RecordingObserver()
    async with serving(tmp_path / "data", wall=wall, observer=recorder, **IDLE) as served:
        p, q = [(await Chat(served, key).said("one"))["session_id"] for key in "ab"]
        wall.now += HALF_HOUR + 1

        async def used() -> None:
            """The timer has found both, and is busy with the first one."""
            await served.gateway.store.append(q, [NewMessage("user", [], "two")])

        sessions = served.gateway.sessions
        deps = replace(sessions.deps, store=Late(served.gateway.store, used))
        policies = policies_of(ResetSettings(mode="idle", idle=HALF_HOUR), {"TZ": "UTC"})
        expiry = Expiry(SimpleNamespace(deps=deps, find=sessions.find), policies, 60)
        assert await expiry.check() == 1
        assert recorder.about("end") == [("end", p)]
        assert (ended(served, p), ended(served, q)) == ("idle", None)


async def test_a15_a_session_that_was_gone_back_to_is_in_use(tmp_path: Path) -> None:
    wall = Wall()
    async with serving(tmp_path / "data", wall=wall, **IDLE) as served:
        chat = Chat(served)
        p = (await chat.said("one"))["session_id"]
        wall.now += HALF_HOUR + 1
        assert (await chat.said("two"))["session_id"] != p
        assert (await chat.said(f"/resume {p}"))["session_id"] == p
        assert await served.gateway.expiry.check() == 0
        assert (await chat.said("three"))["session_id"] == p


async def test_b19_the_mark_survives_a_restart(tmp_path: Path) -> None:
    wall, recorder = Wall(), RecordingObserver()
    async with serving(tmp_path / "data", wall=wall, observer=recorder, **IDLE) as served:
        await Chat(served).said("one")
        wall.now += HALF_HOUR + 1
        assert await served.gateway.expiry.check() == 1
    async with serving(tmp_path / "data", wall=wall, observer=recorder, **IDLE) as served:
        assert await served.gateway.expiry.check() == 0
        assert len(recorder.about("end")) == 1


async def test_b18_the_timer_finds_it_by_itself(tmp_path: Path) -> None:
    wall, recorder = Wall(), RecordingObserver()
    async with serving(tmp_path / "data", wall=wall, observer=recorder, resets__check_every=0.05, **IDLE) as served:
        await Chat(served).said("one")
        wall.now += HALF_HOUR + 1
        await eventually(lambda: bool(recorder.about("end")), "the pass of the timer")


@pytest.mark.parametrize(
    ("entry", "finalised"),
    [
        ({"memory_flushed": True}, True),
        ({"expiry_finalized": False, "memory_flushed": True}, False),
        ({"expiry_finalized": True}, True),
        ({}, False),
    ],
)
def test_b20_the_old_name_of_the_mark_counts_where_the_new_one_is_missing(
    entry: dict[str, Any], finalised: bool
) -> None:
    assert finalized_in(entry) is finalised


async def test_b22_one_that_cannot_be_finalised_costs_the_others_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    wall, recorder = Wall(), RecordingObserver()
    async with serving(tmp_path / "data", wall=wall, observer=recorder, **IDLE) as served:
        ids = [(await Chat(served, key).said("one"))["session_id"] for key in "abc"]
        recorder.deaf_to.add(ids[0])
        wall.now += HALF_HOUR + 1
        with caplog.at_level(logging.WARNING, "ostler.gateway.chat.resets"):
            assert [await served.gateway.expiry.check() for _ in range(5)] == [2, 0, 0, 0, 0]
        assert recorder.raised == 3
        assert [record.levelname for record in caplog.records if ids[0] in record.getMessage()] == ["WARNING"]
        assert served.rows("select count(*) from sessions where expiry_finalized") == [(3,)]


async def test_a14_a_session_that_was_ended_in_the_store_is_left_for_good(served: Served, chat: Chat) -> None:
    p = (await chat.said("one"))["session_id"]
    await served.gateway.store.end_session(p, "by hand")
    ids = [(await chat.said(f"word{number}"))["session_id"] for number in range(4)]
    assert len(set(ids)) == 1
    assert ids[0] != p
    assert await chat.text("!recall") == "\n".join(f"word{number}" for number in range(4))
    assert served.seats() == 2


class Late:
    """A store to which a message comes just before it ends a session."""

    def __init__(self, store: Store, before: Callable[[], Awaitable[None]]) -> None:
        self._store = store
        self._before = before

    def __getattr__(self, name: str) -> Any:
        return getattr(self._store, name)

    async def end_session(self, session_id: str, reason: str) -> bool:
        await self._before()
        return await self._store.end_session(session_id, reason)


async def test_a19_a_message_that_comes_while_its_session_is_being_ended_was_first(tmp_path: Path) -> None:
    wall, recorder = Wall(), RecordingObserver()
    async with serving(tmp_path / "data", wall=wall, observer=recorder, **IDLE) as served:
        chat, sessions = Chat(served), served.gateway.sessions
        p = (await chat.said("one"))["session_id"]
        session = sessions.find(p)
        assert session is not None
        coming: list[asyncio.Task[dict[str, Any]]] = []

        async def message() -> None:
            coming.append(asyncio.create_task(chat.said("two\n!sleep 0.3")))
            await eventually(lambda: session.busy, "the turn runs")

        deps = replace(sessions.deps, store=Late(served.gateway.store, message))
        zone = {"TZ": "UTC"}
        policies = policies_of(ResetSettings(mode="idle", idle=HALF_HOUR / 2), zone)
        wall.now += HALF_HOUR - 1
        expiry = Expiry(SimpleNamespace(deps=deps, find=sessions.find), policies, 60)
        assert await expiry.check() == 0
        assert (await coming[0])["session_id"] == p
        assert (ended(served, p), recorder.about("end")) == (None, [])
        assert (await chat.said("three"))["session_id"] == p
