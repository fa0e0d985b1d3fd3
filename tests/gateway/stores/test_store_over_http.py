"""Group C where the store is looked at, changed by hand, or killed, and asked over HTTP."""

import json
import random
import signal
import threading
from pathlib import Path
from typing import Any

import httpx
import pytest

from ostler.gateway.config.data_folder import DATABASE
from ostler.gateway.model.records import NewMessage, NewSession, SessionOrigin
from tests.support import copies
from tests.support.database import change, look
from tests.support.plain_http import NO_AUTHORITIES
from tests.support.serve_command import command, environment
from tests.support.served import SESSION, Served, serving, text_of


def early_database(folder: Path) -> None:
    """As the first version wrote it: slugs know neither their session nor their owner."""
    folder.mkdir(mode=0o700)
    change(
        folder / DATABASE,
        "CREATE TABLE conversations (slug TEXT PRIMARY KEY, response_id TEXT NOT NULL)",
        "INSERT INTO conversations VALUES ('one', 'resp_1')",
        "PRAGMA user_version=1",
    )


async def test_c10_c11_an_early_slug_without_response_is_404_and_stays_so(tmp_path: Path) -> None:
    early_database(tmp_path / "data")
    for _ in range(2):
        async with serving(tmp_path / "data") as served:
            gone = await served.ask("hello", conversation="one")
            assert (gone.status_code, gone.json()["error"]["param"]) == (404, "conversation")
            assert (await served.http.get("/v1/conversations/one")).json()["id"] == "one"
            assert await served.say("hello", conversation="two") == "echo: hello"
            assert served.rows("select slug, response_id from conversations where slug = 'one'") == [("one", "resp_1")]


async def test_c11_an_early_slug_with_its_response_works_and_is_completed(tmp_path: Path) -> None:
    async with serving(tmp_path / "data") as served:
        first = await served.ask("apple", conversation="x")
    change(tmp_path / "data" / DATABASE, "UPDATE conversations SET session_id = NULL")
    async with serving(tmp_path / "data") as served:
        second = await served.ask("!recall", conversation="x")
        assert text_of(second.json()) == "apple"
        assert served.rows("select session_id from conversations") == [(first.headers[SESSION],)]
    change(tmp_path / "data" / DATABASE, "UPDATE conversations SET session_id = NULL", "DELETE FROM responses")
    async with serving(tmp_path / "data") as served:
        assert (await served.ask("hello", conversation="x")).status_code == 404


async def test_c12_no_eviction_takes_a_slug(tmp_path: Path) -> None:
    async with serving(tmp_path / "data", gateway__responses_max=2) as served:
        sessions = {name: (await served.ask(name, conversation=name)).headers[SESSION] for name in "abcdef"}
        assert served.rows("select count(*) from responses") == [(2,)]
        assert dict(served.rows("select slug, session_id from conversations")) == sessions
        assert (await served.http.get("/v1/conversations/unknown")).status_code == 404
        again = await served.ask("!recall", conversation="a")
        assert (again.headers[SESSION], text_of(again.json())) == (sessions["a"], "a")


async def test_c17_the_next_turn_follows_a_compressed_session_to_its_child(served: Served) -> None:
    parent = (await served.ask("apple", conversation="x")).headers[SESSION]
    summary = NewMessage("system", [{"type": "message", "role": "system"}], "we spoke of fruit")
    child = NewSession("sess_child", platform="api", owner="", origin=SessionOrigin.COMPRESSION)
    store = served.gateway.store
    await store.derive_session(parent, child, messages=[summary], end_parent="compression")
    answer = await served.ask("pear", conversation="x")
    assert answer.headers[SESSION] == "sess_child"
    assert "we spoke of fruit" in served.prompts()[-1]
    assert "apple" not in served.prompts()[-1]
    assert served.rows("select parent_id from sessions where id = 'sess_child'") == [(parent,)]


async def test_c24_a_response_that_was_just_read_survives_the_next_eviction(tmp_path: Path) -> None:
    async with serving(tmp_path / "data", gateway__responses_max=3) as served:
        made = [(await served.ask(str(number))).json()["id"] for number in range(3)]
        assert (await served.http.get(f"/v1/responses/{made[0]}")).status_code == 200
        await served.ask("one more")
        found = [(await served.http.get(f"/v1/responses/{name}")).status_code for name in made]
        assert found == [200, 404, 200]


@pytest.mark.parametrize("seed", range(3))
def test_c25_a_kill_leaves_a_response_with_its_slug_or_neither(tmp_path: Path, seed: int) -> None:
    draw = random.Random(seed)
    answered: dict[str, str] = {}
    with command(tmp_path) as running:
        started = threading.Event()
        writer = threading.Thread(target=keep_asking, args=(running.base, answered, started))
        writer.start()
        assert started.wait(300)
        threading.Event().wait(draw.uniform(0, 0.25))
        running.end(signal.SIGKILL)
        writer.join(20)
    with command(tmp_path) as running, running.http() as http:
        database = tmp_path / "data" / DATABASE
        slugs = dict(look(database, "select slug, response_id from conversations"))
        stored = {name for (name,) in look(database, "select id from responses where status = 'completed'")}
        led = {
            name
            for (name,) in look(database, "select id from responses where slug is not null and status = 'completed'")
        }
        assert {response for response in slugs.values() if response is not None} <= stored
        assert led == {slugs[slug] for slug in slugs if slugs[slug] is not None}
        assert answered.items() <= slugs.items()
        for slug in slugs:
            again = http.post("/v1/responses", json={"model": "demo", "input": "hello", "conversation": slug})
            assert again.status_code == 200, again.text


def keep_asking(base: str, answered: dict[str, str], started: threading.Event) -> None:
    """One turn of a new slug after another, until the gateway is gone."""
    with httpx.Client(base_url=base, timeout=300, trust_env=False, verify=NO_AUTHORITIES) as http:
        for number in range(400):
            body: dict[str, Any] = {"model": "demo", "input": "hi", "conversation": f"c{number}"}
            try:
                answered[f"c{number}"] = http.post("/v1/responses", json=body).json()["id"]
            except httpx.HTTPError:
                return
            started.set()


async def test_c28_one_entry_for_a_slug_and_every_turn_is_found(tmp_path: Path) -> None:
    words = [f"heron{number}" for number in range(4)]
    for word in words:
        async with serving(tmp_path / "data", gateway__responses_max=1) as served:
            session = (await served.ask(word, conversation="x")).headers[SESSION]
            await served.ask("something else")

    def ostler(*verb: str) -> list[dict[str, Any]]:
        line = ["sessions", *verb, "--json", "--data-dir", str(tmp_path / "data")]
        done = copies.run(line, cwd=tmp_path, env=environment(tmp_path, {}), whole=verb == ("list",))
        assert done.returncode == 0, done.stderr
        return [json.loads(found) for found in done.stdout.splitlines()]

    assert len([found for found in ostler("list") if found["id"] == session]) == 1
    for word in words:
        assert {hit["session_id"] for hit in ostler("search", word)} == {session}
