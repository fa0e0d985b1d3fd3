"""What went wrong at other gateways, asked of this one: every test carries the id of its story."""

import asyncio
import json
import socket
from collections.abc import AsyncIterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import httpx
import pytest

from ostler.gateway.ops.readiness import Readiness
from ostler.pool.keys import pool_key
from tests.support.served import Served, serving, text_of
from tests.support.waiting import eventually, soon

LOOKUP = {"type": "function", "name": "lookup", "parameters": {"type": "object", "properties": {}}}


@pytest.fixture
async def served(tmp_path: Path) -> AsyncIterator[Served]:
    async with serving(tmp_path / "data") as one:
        yield one


async def test_w01a_two_users_with_one_key_model_and_directory_see_nothing_of_each_other(tmp_path: Path) -> None:
    users = {name: f"the key of {name}, long enough" for name in ("ann", "bob")}
    keys = [{"name": name, "sha256": sha256(key.encode()).hexdigest()} for name, key in users.items()]
    async with serving(tmp_path / "data", auth__keys=keys, pool__share="all") as served:

        async def say(name: str, text: str) -> str:
            body = {"model": "demo", "input": text, "conversation": "same"}
            headers = {"authorization": f"Bearer {users[name]}"}
            return text_of((await served.http.post("/v1/responses", json=body, headers=headers)).json())

        for name in users:
            await say(name, f"canary of {name}")
        recalled = await asyncio.gather(*(say(name, "!recall") for name in users))
        assert recalled == [f"canary of {name}" for name in users]
        assert served.starts() == 1


async def test_w01b_a_foreign_cancel_is_404_and_the_turn_goes_on(tmp_path: Path) -> None:
    users = {name: f"the key of {name}, long enough" for name in ("ann", "bob")}
    keys = [{"name": name, "sha256": sha256(key.encode()).hexdigest()} for name, key in users.items()]
    bearer = {name: {"authorization": f"Bearer {key}"} for name, key in users.items()}
    async with serving(tmp_path / "data", auth__keys=keys) as served:
        body = {"model": "demo", "input": "begun\n!sleep 0.3\ndone", "conversation": "same"}
        running = asyncio.create_task(served.http.post("/v1/responses", json=body, headers=bearer["ann"]))
        await eventually(lambda: bool(served.prompts()), "her agent is asked")
        ((response,),) = served.rows("select id from responses")
        foreign = await served.http.post(f"/v1/responses/{response}/cancel", headers=bearer["bob"])
        stop = await served.http.post("/v1/sessions/same/messages", json={"text": "/stop"}, headers=bearer["bob"])
        assert (foreign.status_code, stop.status_code) == (404, 200)
        assert text_of((await running).json()) == "echo: begun\necho: done"
        assert served.frames("session/cancel") == []


async def test_w14c_the_first_request_of_a_warmed_key_is_a_hit(tmp_path: Path) -> None:
    async with serving(tmp_path / "data", pool__prewarm=True) as served:
        await eventually(lambda: served.gateway.pool.snapshot().core.census.parked, "a seat is parked")
        await served.say("hello", model="demo/demo")
        observer = served.gateway.readiness
        assert isinstance(observer, Readiness)
        assert dict(observer.claims) == {"parked": 1}
        (held,) = (pool_key(lease.key).key for lease in served.gateway.pool.snapshot().core.leases)
        assert (held.provider, held.model) == ("demo", "demo")


async def test_w29a_another_model_has_the_tools_and_the_history(served: Served) -> None:
    await served.say("apple", conversation="x", tools=[LOOKUP])
    moved = await served.say("!recall\n!tools", conversation="x", tools=[LOOKUP], model="demo/other")
    assert moved == "apple\nlookup"
    assert served.starts() == 2


async def test_w40e_a_late_cancel_does_not_reach_the_newer_turn(served: Served) -> None:
    older = (await served.ask("apple", conversation="x")).json()
    newer = asyncio.create_task(served.ask("begun\n!sleep 0.3\ndone", conversation="x"))
    await eventually(lambda: len(served.prompts()) == 2, "the newer turn is asked")
    late = await served.http.post(f"/v1/responses/{older['id']}/cancel")
    assert late.json()["status"] == "completed"
    assert text_of((await newer).json()) == "echo: begun\necho: done"
    assert served.frames("session/cancel") == []


@pytest.mark.parametrize("sign", ["said", "!think so", "!call nothing {}", "!ask"])
async def test_w42_what_the_agent_began_is_not_begun_again(served: Served, sign: str) -> None:
    await served.say("apple", conversation="x")
    died = await served.ask(f"{sign}\n!die", conversation="x")
    assert died.json().get("status") == "failed" or died.status_code == 502
    assert [prompt for prompt in served.prompts() if "!die" in prompt] == [f"{sign}\n!die"]
    assert (await served.say("!recall", conversation="x")).splitlines()[0] == "apple"


async def test_w43_the_second_of_two_requests_knows_what_the_first_brought(served: Served) -> None:
    first = asyncio.create_task(served.say("apple\n!sleep 0.2", conversation="x"))
    await eventually(lambda: bool(served.prompts()), "the first one is asked")
    second = await served.say("!recall", conversation="x")
    assert second == "apple\n!sleep 0.2"
    assert await first == "echo: apple"
    roles = [role for (role,) in served.rows("select role from messages order by id")]
    assert roles == ["user", "assistant"] * 2


async def leave(served: Served, body: dict[str, Any], *, after: str | None) -> None:
    """Ask, and be gone: after this word of the stream, or before there is any answer."""
    async with served.http.stream("POST", "/v1/responses", json={"model": "demo", "stream": True, **body}) as answer:
        async for line in answer.aiter_lines():
            if after is None or after in line:
                return


@pytest.mark.parametrize(
    ("text", "after"),
    [
        ("x\n!sleep 60", None),
        ("x\n!sleep 60", "output_text.delta"),
        ("!call lookup {}", "function_call_arguments.done"),
    ],
    ids=["while it begins", "while it streams", "while its call waits"],
)
async def test_w44a_a_client_that_leaves_leaves_no_lease(tmp_path: Path, text: str, after: str | None) -> None:
    async with serving(tmp_path / "data", gateway__seat_idle=0.1, gateway__client_tool_deadline=0.1) as served:
        await leave(served, {"input": text, "tools": [LOOKUP]}, after=after)
        pool = served.gateway.pool
        await eventually(lambda: not served.gateway.sessions.running, "the turn is over")
        await eventually(lambda: pool.snapshot().core.census.leased == 0, "every seat is given back")
        assert await served.say("still here") == "echo: still here"


async def test_w44a_a_client_that_leaves_the_queue_leaves_no_lease(tmp_path: Path) -> None:
    async with serving(tmp_path / "data", gateway__seat_idle=0.1) as served:
        running = asyncio.create_task(served.ask("!sleep 60", conversation="x"))
        await eventually(lambda: bool(served.prompts()), "the first one is asked")
        waiting = asyncio.create_task(served.ask("never asked", conversation="x"))
        session = served.gateway.sessions.find(served.rows("select id from sessions")[0][0])
        assert session is not None
        await eventually(lambda: session.waiting == 1, "the second one waits")
        for task in (waiting, running):
            task.cancel()
            with pytest.raises((asyncio.CancelledError, httpx.HTTPError)):
                await task
        await eventually(lambda: not served.gateway.sessions.running, "both are over")
        await eventually(lambda: served.gateway.pool.snapshot().core.census.leased == 0, "the seat is given back")
        assert len(served.prompts()) == 1


async def test_w45a_a_drain_does_not_wait_for_a_stuck_turn(served: Served) -> None:
    stuck = asyncio.create_task(served.ask("!hang", conversation="x"))
    await eventually(lambda: bool(served.prompts()), "the agent is asked")
    await soon(served.gateway.sessions.drain(0.1, patience=0.1), "the end of the drain")
    refused = await served.ask("too late")
    assert (refused.status_code, "retry-after" in refused.headers) == (503, True)
    stuck.cancel()


async def test_w44b_a_client_that_reads_nothing_is_cut_off(tmp_path: Path) -> None:
    async with serving(tmp_path / "data", gateway__client_patience=0.5) as served:
        body = json.dumps({"model": "demo", "input": "!stream 400000\n!sleep 60", "stream": True}).encode()
        with socket.socket() as deaf:
            deaf.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            deaf.setblocking(False)
            loop = asyncio.get_running_loop()
            await loop.sock_connect(deaf, ("127.0.0.1", int(served.base.rsplit(":", 1)[1])))
            head = b"POST /v1/responses HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\n"
            await loop.sock_sendall(deaf, head + b"content-length: %d\r\n\r\n" % len(body) + body)
            await eventually(lambda: bool(served.prompts()), "the agent is asked")
            assert (await served.http.get("/healthz")).status_code == 200
            await eventually(lambda: bool(served.frames("session/cancel")), "the turn of the deaf client is stopped")
        await eventually(lambda: not served.gateway.sessions.running, "it is over")
