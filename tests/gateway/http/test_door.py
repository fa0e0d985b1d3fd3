"""What the door lets in: keys, hosts, origins, sizes, rates; and that every refusal is an envelope."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from hashlib import sha256
from pathlib import Path
from typing import Any

import httpx
import pytest

from ostler.gateway.http.auth_middleware import ASKED
from tests.support.served import Served, serving
from tests.support.waiting import eventually, within

KEY = "a-key-of-more-than-16-characters"


def keyed(name: str = "ann", key: str = KEY, **limits: Any) -> dict[str, Any]:
    return {"name": name, "sha256": sha256(key.encode()).hexdigest(), **limits}


def bearer(key: str = KEY) -> dict[str, str]:
    return {"authorization": f"Bearer {key}"}


def is_envelope(answer: httpx.Response) -> bool:
    return set(answer.json()) == {"error"} and set(answer.json()["error"]) == {"message", "type", "param", "code"}


async def test_a_key_is_asked_for_and_its_owner_known(tmp_path: Path) -> None:
    async with serving(tmp_path / "data", auth__keys=[keyed()]) as served:
        body = {"model": "demo", "input": "hi"}
        for headers in ({}, bearer("wrong"), {"authorization": f"Basic {KEY}"}, {"authorization": "Bearer"}):
            refused = await served.http.post("/v1/responses", json=body, headers=headers)
            assert (refused.status_code, is_envelope(refused)) == (401, True)
            assert KEY not in refused.text
        assert (await served.http.get("/healthz")).status_code == 200
        assert (await served.http.get("/readyz")).status_code == 200
        good = await served.http.post("/v1/responses", json=body, headers=bearer())
        assert good.status_code == 200
        assert served.rows("select owner from sessions") == [("ann",)]


async def test_a_key_reaches_only_its_models_and_roots(tmp_path: Path) -> None:
    root = tmp_path / "allowed"
    root.mkdir()
    async with serving(tmp_path / "data", auth__keys=[keyed(models=["demo/small"], roots=[str(root)])]) as served:

        async def ask(model: str, **metadata: str) -> int:
            body = {"model": model, "input": "hi", "metadata": metadata}
            return (await served.http.post("/v1/responses", json=body, headers=bearer())).status_code

        assert await ask("demo/small") == 200
        assert await ask("demo/large") == 403
        assert await ask("demo/small", cwd=str(tmp_path)) == 403
        assert await ask("demo/small", cwd="relative") == 400
        assert await ask("demo/small", cwd=str(root / "missing")) == 400


async def test_one_owners_conversations_are_not_anothers(tmp_path: Path) -> None:
    other = "another-key-of-16-characters"
    async with serving(tmp_path / "data", auth__keys=[keyed(), keyed("bob", other)]) as served:
        body = {"model": "demo", "input": "!recall\nsecret", "conversation": "x"}
        first = await served.http.post("/v1/responses", json=body, headers=bearer())
        path = f"/v1/responses/{first.json()['id']}"
        for method, url in (("GET", path), ("DELETE", path), ("POST", f"{path}/cancel")):
            assert (await served.http.request(method, url, headers=bearer(other))).status_code == 404
        second = await served.http.post("/v1/responses", json={**body, "input": "!recall"}, headers=bearer(other))
        assert "secret" not in second.text


@pytest.mark.parametrize(
    "headers",
    [{"host": "evil.example"}, {"host": "evil.example:8787"}, {"origin": "https://evil.example"}, {"origin": "null"}],
)
@pytest.mark.asyncio(loop_scope="module")
async def test_without_a_key_foreign_names_and_pages_are_refused(untouched: Served, headers: dict[str, str]) -> None:
    answer = await untouched.http.get("/v1/models", headers=headers)
    assert (answer.status_code, is_envelope(answer)) == (403, True)


@pytest.mark.parametrize(
    "headers", [{"host": "localhost:1"}, {"host": "[::1]:1"}, {"host": "localhost:1", "origin": "http://localhost:1"}]
)
@pytest.mark.asyncio(loop_scope="module")
async def test_without_a_key_this_machine_is_answered(untouched: Served, headers: dict[str, str]) -> None:
    assert (await untouched.http.get("/v1/models", headers=headers)).status_code == 200


async def test_a_configured_origin_may_read_the_answer(tmp_path: Path) -> None:
    page = "https://app.example"
    async with serving(tmp_path / "data", auth__keys=[keyed()], auth__cors_origins=[page]) as served:
        before = await served.http.options("/v1/responses", headers={"origin": page})
        assert (before.status_code, before.headers["access-control-allow-origin"]) == (204, page)
        got = await served.http.get("/v1/models", headers={**bearer(), "origin": page})
        assert got.headers["access-control-allow-origin"] == page
        other = await served.http.get("/v1/models", headers={**bearer(), "origin": "https://evil.example"})
        assert "access-control-allow-origin" not in other.headers


async def chunks(size: int) -> AsyncIterator[bytes]:
    for _ in range(size):
        yield b"x" * 1000


async def test_a_body_over_the_limit_is_413_announced_or_not(tmp_path: Path) -> None:
    async with serving(tmp_path / "data", gateway__body_limit=5000) as served:
        told = await served.http.post("/v1/responses", content=b"x" * 6000)
        untold = await served.http.post("/v1/responses", content=chunks(6))
        assert [(answer.status_code, is_envelope(answer)) for answer in (told, untold)] == [(413, True)] * 2


async def until_the_minute_is_used_up(ask: Callable[[], Awaitable[httpx.Response]]) -> list[httpx.Response]:
    """Ask again and again. A bucket fills while we ask, so nobody can say how many requests it takes; one that is
    refused for its minute is told to wait for more than the second that one too many at once is told."""
    answers: list[httpx.Response] = []
    async with within(300, "the requests of a minute are used up"):
        while not answers or int(answers[-1].headers.get("retry-after", "1")) == 1:
            answers.append(await ask())
    return answers


async def test_a_key_has_so_many_requests_at_once_and_in_a_minute(tmp_path: Path) -> None:
    async with serving(tmp_path / "data", auth__keys=[keyed(concurrency=1, per_minute=3)]) as served:
        running = asyncio.create_task(
            served.http.post("/v1/responses", json={"model": "demo", "input": "!sleep 60"}, headers=bearer())
        )
        await eventually(lambda: bool(served.prompts()), "the first request runs")
        body = {"model": "demo", "input": "hi"}
        second = await served.http.post("/v1/responses", json=body, headers=bearer())
        assert (second.status_code, is_envelope(second)) == (429, True)
        assert int(second.headers["retry-after"]) >= 1
        running.cancel()
        # A cancelled turn has its place until its agent says that it stopped: until then one more is one too many.
        answers = await until_the_minute_is_used_up(
            lambda: served.http.post("/v1/responses", json=body, headers=bearer())
        )
        assert {answer.status_code for answer in answers} == {200, 429}


async def test_commands_are_heard_where_a_key_has_no_place_left_for_a_turn(tmp_path: Path) -> None:
    async with serving(tmp_path / "data", auth__keys=[keyed(concurrency=1, per_minute=12)]) as served:

        async def say(text: str) -> httpx.Response:
            return await served.http.post("/v1/sessions/me/messages", json={"text": text}, headers=bearer())

        running = asyncio.create_task(say("begun\n!sleep 60"))
        await eventually(lambda: bool(served.prompts()), "the turn runs")
        for refused in (await say("more"), await say("/retry"), await say("/compress")):
            assert (refused.status_code, is_envelope(refused)) == (429, True)
        for command in ("/status", "/approve", "/deny", "/nonsense", "/title mine"):
            assert (await say(command)).status_code == 200
        assert (await say("/stop")).status_code == 200
        assert (await running).json()["status"] == "cancelled"
        assert (await say("now")).status_code == 200
        assert (await until_the_minute_is_used_up(lambda: say("/status")))[-1].status_code == 429


def as_response(text: str) -> tuple[str, dict[str, Any]]:
    return "/v1/responses", {"model": "demo", "input": text, "conversation": "x"}


def as_items(text: str) -> tuple[str, dict[str, Any]]:
    content = [{"type": "input_text", "text": text}]
    return "/v1/responses", {"model": "demo", "input": [{"role": "user", "content": content}], "conversation": "x"}


def as_chat(text: str) -> tuple[str, dict[str, Any]]:
    before = [{"role": "user", "content": "/stop"}, {"role": "assistant", "content": "Nothing is running."}]
    return "/v1/chat/completions", {"model": "demo", "messages": [*before, {"role": "user", "content": text}]}


@pytest.mark.parametrize("worded", [as_response, as_items, as_chat])
async def test_commands_on_the_openai_api_are_heard_where_a_key_has_no_place_left(
    tmp_path: Path, worded: Callable[[str], tuple[str, dict[str, Any]]]
) -> None:
    keys = [keyed(concurrency=1, per_minute=20)]
    async with serving(tmp_path / "data", auth__keys=keys, gateway__commands_on_openai_api=True) as served:

        async def say(text: str) -> httpx.Response:
            path, body = worded(text)
            return await served.http.post(path, json=body, headers={**bearer(), "x-ostler-session": "x"})

        running = asyncio.create_task(say("begun\n!sleep 60"))
        await eventually(lambda: bool(served.prompts()), "the turn runs")
        for refused in (await say("more"), await say("/retry"), await say("/etc/hosts")):
            assert (refused.status_code, is_envelope(refused)) == (429, True)
        for command in ("/status", "/nonsense", "/stop"):
            assert (await say(command)).status_code == 200
        assert (await running).status_code == 200
        assert (await say("now")).status_code == 200
        assert len(served.prompts()) == 2


async def test_what_only_ends_with_a_command_takes_a_place(tmp_path: Path) -> None:
    keys = [keyed(concurrency=1, per_minute=20)]
    async with serving(tmp_path / "data", auth__keys=keys, gateway__commands_on_openai_api=True) as served:
        running = asyncio.create_task(
            served.http.post("/v1/responses", json={"model": "demo", "input": "!sleep 60"}, headers=bearer())
        )
        await eventually(lambda: bool(served.prompts()), "the turn runs")
        asked, stop = {"role": "user", "content": "more"}, {"role": "user", "content": "/stop"}
        aside = {"role": "developer", "content": "be kind"}
        for items in ([asked, stop], [asked, aside, stop], [{"type": "item_reference", "id": "msg_1"}, stop]):
            refused = await served.http.post("/v1/responses", json={"model": "demo", "input": items}, headers=bearer())
            assert refused.status_code == 429
        running.cancel()


async def test_a_page_of_an_allowed_origin_may_send_and_read_every_header_of_ours(tmp_path: Path) -> None:
    page = "https://page.example"
    async with serving(tmp_path / "data", auth__cors_origins=[page]) as served:
        wanted = "authorization, x-stainless-os, openai-project, x-else, x-stainless-\u00fc"
        asked = {"origin": page, "access-control-request-method": "POST", "access-control-request-headers": wanted}
        before = await served.http.options("/v1/responses", headers={k: v.encode() for k, v in asked.items()})
        assert before.status_code == 204
        allowed = set(before.headers["access-control-allow-headers"].split(", "))
        assert allowed - set(ASKED) == {"x-stainless-os", "openai-project"}
        assert {"x-ostler-on-disconnect", "x-ostler-session", "idempotency-key", "x-request-id"} <= allowed
        answer = await served.http.post(
            "/v1/responses", json={"model": "demo", "input": "hi"}, headers={"origin": page}
        )
        readable = set(answer.headers["access-control-expose-headers"].split(", "))
        ours = {name for name in answer.headers if name.startswith("x-ostler-") or name == "x-request-id"}
        assert ours <= readable
        assert "retry-after" in readable


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [
        ("GET", "/nope", 404),
        ("GET", "/v1/models/", 404),
        ("POST", "/v1/responses/", 404),
        ("OPTIONS", "/v1/responses", 405),
        ("PUT", "/v1/responses", 405),
        ("GET", "/v1/responses/no", 404),
        ("PATCH", "/healthz", 405),
    ],
)
@pytest.mark.asyncio(loop_scope="module")
async def test_every_error_is_an_envelope_with_security_headers(
    untouched: Served, method: str, path: str, status: int
) -> None:
    answer = await untouched.http.request(method, path)
    assert (answer.status_code, is_envelope(answer)) == (status, True)
    assert answer.headers["x-content-type-options"] == "nosniff"


async def test_the_documents_are_whole_and_need_no_network(served: Served) -> None:
    document = (await served.http.get("/openapi.json")).json()
    assert set(document["paths"]) >= {"/v1/responses", "/v1/chat/completions", "/v1/conversations/{slug}/items"}
    text = (await served.http.get("/docs")).text
    assert "/v1/responses" in text
    assert "http:" not in text.replace("http-equiv", "")
    assert "https:" not in text
