"""What commands did survives kill -9, is in the mirrors, and holds for whom it was done."""

import asyncio
import hashlib
import json
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import httpx
import pytest

from ostler.gateway.config.data_folder import DATABASE, MIRRORS
from ostler.gateway.model.errors import StoreDiskFault
from ostler.gateway.model.store import Store
from tests.support.chats import Chat, ended
from tests.support.serve_command import command
from tests.support.served import Served, serving
from tests.support.talks import rows, talked
from tests.support.waiting import eventually

KEYS = {"ann": "k" * 32, "bob": "b" * 32, "root": "r" * 32}


def mirrored(folder: Path, session_id: str) -> list[str]:
    """The texts of a mirror."""
    file = folder / MIRRORS / f"{session_id}.jsonl"
    return [json.loads(line)["text"] for line in file.read_text().splitlines()] if file.exists() else []


async def in_line(served: Served, session_id: str) -> None:
    """The mirror says what the transcript says."""
    await eventually(lambda: mirrored(served.folder, session_id) == rows(served, session_id), "the mirror follows")


def send(http: httpx.Client, text: str, key: str = "k") -> str:
    """One message of a conversation; what is answered."""
    answer = http.post(f"/v1/sessions/{key}/messages", json={"text": text})
    assert answer.status_code == 200, answer.text
    return str(answer.json()["text"])


def test_d01_d02_rd3_h17_what_was_taken_back_stays_so_after_a_kill(tmp_path: Path) -> None:
    with command(tmp_path) as gateway, gateway.http() as http:
        for text in ("u1", "u2\n!recall", "/retry", "u3", "/undo", "/title Killed"):
            send(http, text)
        gateway.end(signal.SIGKILL)
    with command(tmp_path) as gateway, gateway.http() as http:
        assert send(http, "!recall") == "u1\nu2\n!recall"
        assert "u3" not in send(http, "/history")
        assert send(http, "/history").count("echo: u2") == 1
        send(http, "/new")
        gateway.end(signal.SIGKILL)
    with command(tmp_path) as gateway, gateway.http() as http:
        assert "Killed" in send(http, "/resume")
        gateway.end(signal.SIGKILL)
    with command(tmp_path) as gateway, gateway.http() as http:
        assert "Killed" in send(http, "/resume 1")
        send(http, "/compress")
        gateway.end(signal.SIGKILL)
    with command(tmp_path) as gateway, gateway.http() as http:
        assert "Killed #2" in send(http, "/title")
        assert send(http, "!recall").endswith("!recall")


async def test_d08_h07_h08_rd5_mirrors_follow_every_rewrite(tmp_path: Path) -> None:
    async with serving(tmp_path / "data") as served:
        chat = Chat(served)
        session = await talked(chat, "u1", "u2", "u3")
        for text in ("/undo", "/retry", "u4", "/undo 9", "u5", "u6"):
            await chat.said(text)
            await in_line(served, session)
        await chat.said("/compress")
        child = await talked(chat, "u7")
        assert child != session
        for each in (session, child):
            await in_line(served, each)
        await chat.said("/branch")
        branch = await talked(chat, "u8")
        for each in (session, child, branch):
            await in_line(served, each)
        assert rows(served, session) == ["u5", "echo: u5", "u6", "echo: u6"]
        assert len(mirrored(served.folder, branch)) == len(mirrored(served.folder, child)) + 2


async def test_h05_h09_resume_brings_back_what_only_a_mirror_remembers(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    async with serving(folder) as served:
        lost = await talked(Chat(served), "u1", "u2")
        await in_line(served, lost)
    for file in folder.glob(f"{DATABASE}*"):
        file.unlink()
    async with serving(folder) as served:
        chat = Chat(served)
        assert "No session of yours" in await chat.text("/resume sess_never")
        said = await chat.said(f"/resume {lost}")
        assert said["session_id"] == lost
        assert await chat.text("!recall") == "u1\nu2"


class Unreadable:
    """A store whose disk cannot be read."""

    READS = frozenset({"get_session", "find_title", "sessions_by_prefix", "list_sessions", "live_end", "marks"})

    def __init__(self, store: Store) -> None:
        self._store = store

    def __getattr__(self, name: str) -> Any:
        return self.fail if name in self.READS else getattr(self._store, name)

    async def fail(self, *_: object, **__: object) -> None:
        raise StoreDiskFault(Path("ostler.db"), "disk I/O error")


@pytest.mark.parametrize("typed", ["/resume", "/resume 1", "/resume Title", "/resume sess_1"])
async def test_h19_a_database_that_cannot_be_read_costs_a_message_only(tmp_path: Path, typed: str) -> None:
    async with serving(tmp_path / "data") as served:
        chat, sessions = Chat(served), served.gateway.sessions
        target = await talked(chat, "t1")
        await chat.said("/title Title")
        await chat.said("/new")
        session = await talked(chat, "p1")
        sound = sessions.deps
        sessions.deps = replace(sound, store=cast("Store", Unreadable(sound.store)))
        refused = await chat.send(typed)
        assert (refused.status_code, "disk I/O error" in refused.json()["error"]["message"]) == (503, True)
        sessions.deps = sound
        assert (await served.http.get("/healthz")).status_code == 200
        assert chat.routed() == session
        assert ended(served, session) is None
        assert (await chat.said("/resume Title"))["session_id"] == target


def keyed(name: str, **more: Any) -> dict[str, Any]:
    """A key of the configuration."""
    return {"name": name, "sha256": hashlib.sha256(KEYS[name].encode()).hexdigest(), **more}


async def test_b31_rb9_other_peoples_sessions_are_refused_but_to_an_administrator(tmp_path: Path) -> None:
    keys = [keyed("ann"), keyed("bob"), keyed("root", admin=True)]
    async with serving(tmp_path / "data", auth__keys=keys) as served:

        async def said(name: str, text: str) -> dict[str, Any]:
            headers = {"authorization": f"Bearer {KEYS[name]}"}
            answer = await served.http.post("/v1/sessions/k/messages", json={"text": text}, headers=headers)
            assert answer.status_code == 200, answer.text
            body: dict[str, Any] = answer.json()
            return body

        anns = (await said("ann", "secret plan"))["session_id"]
        await said("ann", "/title Plan of Ann")
        bobs = (await said("bob", "hello"))["session_id"]
        for typed in ("Plan of Ann", anns, anns[:15]):
            refused = await said("bob", f"/resume {typed}")
            assert "No session of yours" in refused["text"]
            assert refused["session_id"] == bobs
        for listing in ("/resume", "/sessions", "/sessions secret"):
            assert "Ann" not in (await said("bob", listing))["text"]
        assert "Plan of Ann" in (await said("root", "/resume"))["text"]
        assert (await said("root", "/resume Plan of Ann"))["session_id"] == anns
        assert (await said("root", "!recall"))["text"] == "secret plan"


async def test_a22_f22_permissions_are_asked_answered_and_dropped(tmp_path: Path) -> None:
    async with serving(tmp_path / "data", pool__permissions="ask") as served:
        chat, other = Chat(served, "a"), Chat(served, "b")

        for word, option in (("/approve", "allow_once"), ("/deny", "reject_once")):
            async with asyncio.TaskGroup() as group:
                mine = group.create_task(chat.said("!ask mine"))
                theirs = group.create_task(other.said("!ask theirs"))
                await said_so(chat, "mine")
                await said_so(other, "theirs")
                assert "mine" in await chat.text(word)
                assert (await mine)["text"] == f"selected: {option}"
                assert not theirs.done()
                assert "1. theirs" in await other.text("/approve 2")
                await other.text("/deny all")
            assert theirs.result()["text"] == "selected: reject_once"
            assert "asks for nothing" in await chat.text(word)
        async with asyncio.TaskGroup() as group:
            left = group.create_task(chat.said("!ask left"))
            await said_so(chat, "left")
            await chat.said("/new")
            assert "asks for nothing" in await chat.text("/approve")
            assert (await left)["status"] == "cancelled"


async def test_e23_f22_a_drain_that_waits_for_a_person_lets_them_answer(tmp_path: Path) -> None:
    async with serving(tmp_path / "data", pool__permissions="ask") as served:
        chat = Chat(served)
        async with asyncio.TaskGroup() as group:
            asked = group.create_task(chat.said("!ask mine"))
            await said_so(chat, "mine")
            draining = group.create_task(served.gateway.sessions.drain(60))
            await eventually(lambda: served.gateway.sessions.draining, "the drain begins")
            assert (await chat.send("hello")).status_code == 503
            assert (await chat.send("/new")).status_code == 503
            assert "mine" in await chat.text("/approve")
        assert asked.result()["text"] == "selected: allow_once"
        assert draining.done()


async def said_so(chat: Chat, title: str) -> None:
    """The agent waits for this permission."""
    session = chat.routed()

    def waits() -> bool:
        at_work = chat.served.gateway.sessions.find(chat.routed() or session or "")
        return at_work is not None and [each.title for each in at_work.pending_permissions()] == [title]

    await eventually(waits, f"the agent asks: {title}")


@pytest.mark.parametrize("enabled", [True, False])
async def test_z1_the_commands_hold_without_a_pool(tmp_path: Path, enabled: bool) -> None:
    async with serving(tmp_path / "data", pool__enabled=enabled) as served:
        chat = Chat(served)
        await talked(chat, "u1", "u2", "u3", "/undo", "/retry", "/branch", "/undo")
        assert await chat.text("!recall") == "u1"
        await talked(chat, "u4", "/compress")
        assert await chat.text("!recall") == "!recall\nu4"
