"""/admin over HTTP: the same application on the socket and on the listener, and who may use which."""

import asyncio
import hashlib
import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from ostler.gateway.ops.console.status_view import WATCHERS
from tests.support.chats import Chat
from tests.support.served import Served, serving
from tests.support.waiting import eventually, soon

pytestmark = pytest.mark.asyncio(loop_scope="module")
OPERATOR, USER = "operator-key-0123456789", "client-key-0123456789abc"
KEY = {"key": "demo"}


def keyed(**admin: bool) -> list[dict[str, Any]]:
    """`auth.keys` of this name and right."""
    keys = {"ops": OPERATOR, "app": USER}
    return [
        {"name": name, "sha256": hashlib.sha256(keys[name].encode()).hexdigest(), "admin": right}
        for name, right in admin.items()
    ]


async def order(served: Served, verb: str, body: Any = None, **heads: str) -> httpx.Response:
    """POST /admin/pool/{verb}"""
    return await served.http.post(f"/admin/pool/{verb}", json=body or {}, headers=heads)


def bearer(key: str) -> dict[str, str]:
    """The header."""
    return {"authorization": f"Bearer {key}"}


async def state(served: Served) -> dict[str, Any]:
    """GET /admin/pool"""
    answer = await served.http.get("/admin/pool")
    assert answer.status_code == 200, answer.text
    document: dict[str, Any] = answer.json()
    return document


async def test_show_joins_what_the_pool_holds_and_names_no_session(served: Served) -> None:
    said = await served.ask("hello", conversation="secret-slug")
    shown = await state(served)
    (key,) = [key for key in shown["keys"] if key["leased"]]
    (process,) = key["processes"]
    assert (key["name"], process["state"], process["leased"]) == ("demo/demo", "ready", 1)
    assert process["pid"] in [one.pid for one in served.gateway.pool.snapshot().processes]
    (turn,) = shown["turns"]
    assert (turn["status"], turn["warmth"], turn["transport"]) == ("completed", "cold", "pool")
    assert set(turn["ms"]) == {"spawn", "bridge", "session_new", "first_tool", "generation", "total"}
    text = json.dumps(shown)
    assert said.headers["x-ostler-session-id"] not in text
    assert said.json()["id"] not in text
    assert "secret-slug" not in text


async def test_every_verb_does_what_it_says(served: Served) -> None:
    await served.say("hello")
    pool = served.gateway.pool
    ((slot, pid),) = [(one.slot, one.pid) for one in pool.snapshot().processes]
    assert (await order(served, "warm", {**KEY, "seats": 3})).json()["key"].startswith("demo/demo in ")
    await eventually(lambda: pool.snapshot().core.census.parked >= 3, "three parked seats")
    for verb, paused in (("pause", True), ("resume", False)):
        assert (await order(served, verb, KEY)).status_code == 200
        assert [view.paused for view in pool.snapshot().core.keys] == [paused]
        assert (await order(served, verb)).status_code == 200
        assert pool.snapshot().core.paused is paused
    assert (await order(served, "recycle", {"process": slot})).json()["process"] == slot
    await eventually(lambda: pid not in [one.pid for one in pool.snapshot().processes], "the old process being gone")
    (successor,) = pool.snapshot().processes
    assert (await order(served, "kill", {"process": successor.slot})).status_code == 200
    await eventually(lambda: successor.slot not in [one.slot for one in pool.snapshot().processes], "its end")
    assert (await order(served, "reconnect", KEY)).status_code == 200
    await order(served, "warm", {**KEY, "seats": 0})
    await eventually(lambda: any(one.pid for one in pool.snapshot().processes), "a process again")
    (last,) = pool.snapshot().processes
    assert (await order(served, "drain", KEY)).status_code == 200
    await eventually(lambda: last.slot not in [one.slot for one in pool.snapshot().processes], "the drained process")


@pytest.mark.parametrize(
    ("verb", "body", "status", "code"),
    [
        ("kill", {"process": 99}, 404, "unknown_process"),
        ("kill", {"process": "x"}, 400, "invalid_value"),
        ("kill", {}, 400, "invalid_value"),
        ("drain", {"key": "demo/never"}, 404, "unknown_key"),
        ("drain", {}, 400, "invalid_value"),
        ("drain", {"key": ""}, 400, "invalid_value"),
        ("warm", {"key": "nobody/knows"}, 404, "unknown_model"),
        ("warm", {"key": "demo", "seats": 65}, 400, "invalid_value"),
        ("warm", {"key": "demo/x", "cwd": "/no/such/place"}, 400, "invalid_cwd"),
        ("pause", {"cwd": "/tmp"}, 400, None),
        ("pause", {"keys": "demo"}, 400, "invalid_value"),
    ],
)
async def test_z05_an_order_that_cannot_be_meant_changes_nothing(
    served: Served, verb: str, body: dict[str, Any], status: int, code: str | None
) -> None:
    answer = await order(served, verb, body)
    assert (answer.status_code, answer.json()["error"]["code"]) == (status, code)
    snapshot = served.gateway.pool.snapshot()
    assert (snapshot.core.paused, snapshot.processes) == (False, ())


async def test_a_key_in_two_directories_must_be_named_whole(served: Served, tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        assert (await order(served, "warm", {"key": "demo/x", "cwd": str(tmp_path / name)})).status_code == 200
    refused = await order(served, "drain", {"key": "demo/x"})
    assert (refused.status_code, refused.json()["error"]["code"]) == (409, "ambiguous_key")
    assert str(tmp_path / "a") in refused.json()["error"]["message"]
    whole = await order(served, "drain", {"key": f"demo/x in {tmp_path / 'a'}"})
    assert whole.status_code == 200


async def test_seats_that_are_ordered_have_the_tools_of_those_who_come(tmp_path: Path) -> None:
    async with serving(tmp_path / "data", memory__enabled=True, memory__openai_api=False) as served:
        assert (await order(served, "warm", {**KEY, "seats": 2})).status_code == 200
        await eventually(lambda: served.gateway.pool.snapshot().core.census.parked == 3, "the seats are ready")
        await Chat(served).said("by a chat face, with a memory")
        await served.say("by the API, without one")
        assert [turn["warmth"] for turn in (await state(served))["turns"]] == ["parked", "parked"]
        await order(served, "warm", {**KEY, "seats": 0})
        floors = [line.floor for key in served.gateway.pool.snapshot().core.keys for line in key.lines]
        assert set(floors) == {0}


async def test_with_the_pool_off_key_verbs_are_refused_and_single_processes_obey(tmp_path: Path) -> None:
    async with serving(tmp_path / "data", pool__enabled=False) as served:
        await served.say("hello")
        ((number, pid),) = [(one.slot, one.pid) for one in served.gateway.pool.snapshot().processes]
        for verb in ("warm", "pause", "resume", "drain", "reconnect"):
            refused = await order(served, verb, KEY)
            assert (refused.status_code, refused.json()["error"]["code"]) == (409, "pool_off")
        assert (await state(served))["keys"][0]["own_process"] is True
        assert (await order(served, "kill", {"process": number})).status_code == 200
        await eventually(lambda: pid not in [one.pid for one in served.gateway.pool.snapshot().processes], "its end")


async def test_why_tells_each_claim_and_the_target(served: Served) -> None:

    def parked() -> int:
        return served.gateway.pool.snapshot().core.census.parked

    await served.say("hello")
    for _ in range(24):
        # Whoever comes before a seat is parked opens one of his own: on a busy machine that may be anybody.
        await eventually(parked, "a parked seat")
        await served.say("hello")
    await eventually(parked, "a parked seat")
    why = (await served.http.get("/admin/pool/why", params=KEY)).json()
    assert [claim["warmth"] for claim in why["claims"]].count("parked") == 20
    (line,) = why["reasons"]["lines"]
    assert line["because"] in ("steady", "burst")
    # On a busy machine the target may have fallen since, and the surplus goes with the next tick.
    assert line["missing"] == max(0, line["target"] - line["parked"] - line["opening"])
    served.gateway.pool.pause()
    waiting = asyncio.create_task(served.ask("later"))
    await eventually(lambda: served.gateway.pool.snapshot().core.census.waiting, "a waiting claim")
    why = (await served.http.get("/admin/pool/why", params=KEY)).json()
    assert (why["reasons"]["holds"], why["reasons"]["waiting"]) == (["pool_paused"], 1)
    served.gateway.pool.resume()
    await soon(waiting, "the claim that waited")
    first = (await served.http.get("/admin/pool/why", params=KEY)).json()["claims"][0]
    assert first["answer"] == "granted"
    assert first["queue"] == first["waited"] > 0
    assert "session" not in json.dumps(why).replace("session_new", "")


async def test_events_tell_of_a_change_and_end_with_the_gateway(served: Served) -> None:
    async with served.http.stream("GET", "/admin/events") as answer:
        lines = answer.aiter_lines()
        states = [json.loads(line[6:]) async for line in until(lines, 1)]
        served.gateway.pool.pause()
        states += [json.loads(line[6:]) async for line in until(lines, 1)]
        await served.gateway.sessions.drain(0)
        async for line in lines:
            if line.startswith("data: "):
                states.append(json.loads(line[6:]))
    assert [states[0]["paused"], states[1]["paused"], states[-1]["draining"]] == [False, True, True]


async def until(lines: Any, count: int) -> Any:
    """So many data lines."""
    async for line in lines:
        if line.startswith("data: "):
            yield line
            count -= 1
            if not count:
                return


async def test_watchers_are_bounded_and_leave_their_place(served: Served) -> None:
    async with httpx.AsyncClient(
        base_url=served.base, limits=httpx.Limits(max_connections=100), trust_env=False
    ) as http:
        streams = [http.stream("GET", "/admin/events") for _ in range(WATCHERS)]
        for stream in streams:
            assert (await stream.__aenter__()).status_code == 200
        refused = await served.http.get("/admin/events")
        assert (refused.status_code, refused.json()["error"]["code"]) == (429, "too_many_watchers")
        for stream in streams:
            await stream.__aexit__(None, None, None)

    async def free() -> bool:
        async with served.http.stream("GET", "/admin/events") as answer:
            return answer.status_code == 200

    async with asyncio.timeout(300):
        while not await free():
            pass


async def test_with_keys_only_an_operators_key_gets_in(tmp_path: Path) -> None:
    async with serving(tmp_path / "data", auth__keys=keyed(ops=True, app=False)) as served:
        for path in ("/admin/pool", "/admin/events", "/admin/pool/why?key=demo", "/admin/nothing"):
            assert (await served.http.get(path)).status_code == 401
            assert (await served.http.get(path, headers=bearer(USER))).status_code == 403
        assert (await order(served, "pause")).status_code == 401
        assert (await order(served, "pause", **bearer(USER))).status_code == 403
        assert not served.gateway.pool.snapshot().core.paused
        assert (await order(served, "pause", **bearer(OPERATOR))).status_code == 200
        assert (await served.http.get("/admin/pool", headers=bearer(OPERATOR))).json()["paused"] is True


async def test_the_one_key_of_a_person_is_no_operators(tmp_path: Path) -> None:
    async with serving(tmp_path / "data", auth__api_key=USER) as served:
        refused = await served.http.get("/admin/pool", headers=bearer(USER))
        assert (refused.status_code, refused.json()["error"]["code"]) == (403, "not_an_operator")


async def test_a_cookie_changes_nothing_for_a_page_of_another_origin(tmp_path: Path) -> None:
    async with serving(tmp_path / "data", auth__keys=keyed(ops=True)) as served:
        entered = await served.http.post("/login", data={"key": OPERATOR})
        assert entered.status_code == 303
        cookie = {"cookie": entered.headers["set-cookie"].partition(";")[0]}
        assert (await served.http.get("/admin/pool", headers=cookie)).status_code == 200
        for origin in ({}, {"origin": "http://127.0.0.1:1"}, {"origin": "null"}):
            tried = await served.http.post("/v1/responses", json={"input": "x"}, headers={**cookie, **origin})
            assert tried.status_code == 401
        own = {**cookie, "origin": served.base}
        assert (await served.http.post("/v1/responses", json={"input": "x"}, headers=own)).status_code == 200
        assert (await served.http.post("/admin/pool/pause", json={}, headers=own)).status_code == 403


async def test_a_foreign_page_cannot_sign_anybody_in(tmp_path: Path) -> None:
    async with serving(tmp_path / "data", auth__keys=keyed(ops=True)) as served:
        foreign = {"origin": "http://evil.example"}
        tried = await served.http.post("/login", data={"key": OPERATOR}, headers=foreign)
        assert (tried.status_code, "set-cookie" in tried.headers) == (403, False)


async def test_n36_guessing_keys_at_the_sign_in_gets_slow_and_locks_out_nobody_with_a_key(tmp_path: Path) -> None:
    async with serving(tmp_path / "data", auth__keys=keyed(ops=True)) as served:
        tries = [(await served.http.post("/login", data={"key": f"guess{n}"})).status_code for n in range(40)]
        assert set(tries) == {401, 429}
        assert tries.index(429) >= 20
        assert (await served.http.post("/login", data={"key": "one more guess"})).status_code == 429
        assert (await served.http.post("/login", data={"key": OPERATOR})).status_code == 303


async def test_n36_wrong_keys_are_counted_for_each_address_and_the_addresses_are_bounded(tmp_path: Path) -> None:
    async with serving(tmp_path / "data", auth__keys=keyed(ops=True)) as served:

        async def guess(address: str) -> int:
            # The test speaks from loopback, which uvicorn believes of whom it speaks for, as of a proxy.
            forwarded = {"x-forwarded-for": address}
            return (await served.http.post("/login", data={"key": "guess"}, headers=forwarded)).status_code

        for _ in range(60):
            if await guess("192.0.2.1") == 429:
                break
        assert [await guess(other) for other in ("192.0.2.1", "192.0.2.2", "2001:db8::1")] == [429, 401, 401]
