"""`Idempotency-Key` wherever an agent is asked: the same answer again, whole or streamed, and no second prompt."""

import asyncio
import json
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.support.served import SESSION, Served, serving

KEY = {"idempotency-key": "k"}
CHAT = ("/v1/chat/completions", {"model": "demo", "messages": [{"role": "user", "content": "apple"}]})
SAY = ("/v1/sessions/me/messages", {"text": "apple"})
SLOW = "begun\n!sleep 0.3\nover"


def slowly(path: str, body: dict[str, Any]) -> dict[str, Any]:
    """The same request with an answer that takes its time."""
    if "text" in body:
        return {**body, "text": SLOW, "stream": True}
    said = [{"role": "user", "content": SLOW}]
    return {**body, "messages": said, "stream": True, "stream_options": {"include_usage": True}}


async def post(served: Served, path: str, body: dict[str, Any], **headers: str) -> httpx.Response:
    return await served.http.post(path, json=body, headers={**KEY, **headers})


@pytest.mark.parametrize(("path", "body"), [CHAT, SAY])
async def test_c19_a_repeated_message_asks_once_also_over_a_restart(
    tmp_path: Path, path: str, body: dict[str, Any]
) -> None:
    async with serving(tmp_path / "data") as served:
        first, beside = await asyncio.gather(post(served, path, body), post(served, path, body))
        assert (first.status_code, "echo: apple" in first.text) == (200, True)
        assert (beside.content, beside.headers[SESSION]) == (first.content, first.headers[SESSION])
        assert served.prompts() == ["apple"]
    async with serving(tmp_path / "data") as served:
        again = await post(served, path, body)
        assert (again.content, again.headers[SESSION]) == (first.content, first.headers[SESSION])
        assert served.prompts() == ["apple"]


@pytest.mark.parametrize(("path", "body"), [CHAT, SAY])
async def test_c19_a_repeated_stream_is_read_along_and_told_again(
    tmp_path: Path, path: str, body: dict[str, Any]
) -> None:
    body = slowly(path, body)
    async with serving(tmp_path / "data") as served:
        first, beside = await asyncio.gather(post(served, path, body), post(served, path, body))
        assert "echo: begun" in first.text
        assert (beside.status_code, beside.text) == (200, first.text)
        assert len(served.prompts()) == 1
    async with serving(tmp_path / "data") as served:
        again = await post(served, path, body)
        assert again.headers["content-type"].startswith("text/event-stream")
        assert again.headers[SESSION] == first.headers[SESSION]
        assert said(again.text) == said(first.text)
        assert len(served.prompts()) == 1


def said(stream: str) -> dict[str, Any]:
    """What a client puts together from a stream, of either face."""
    whole: dict[str, Any] = {"text": "", "ids": set(), "end": None}
    for line in stream.splitlines():
        if not line.startswith("data: {"):
            continue
        event = json.loads(line[6:])
        if "choices" in event:
            whole["ids"].add((event["id"], event["created"], event["model"]))
            for choice in event["choices"]:
                whole["text"] += choice["delta"].get("content") or ""
                whole["end"] = choice["finish_reason"]
            whole["usage"] = event.get("usage")
        elif event["type"] == "session.message.delta":
            whole["text"] += event["text"]
        elif event["type"] == "session.message.completed":
            whole["end"] = event["message"]
    whole["done"] = stream.endswith("data: [DONE]\n\n")
    return whole


@pytest.mark.parametrize(("path", "body"), [CHAT, SAY])
async def test_c19_a_key_that_was_used_for_something_else_is_refused(
    served: Served, path: str, body: dict[str, Any]
) -> None:
    await post(served, path, body)
    for where, what, headers in [
        (path, {**body, "stream": True}, {}),
        ("/v1/responses", {"model": "demo", "input": "apple"}, {}),
        ("/v1/sessions/you/messages", {"text": "apple"}, {}),
        (*CHAT, {"x-ostler-session": "other"}),
    ]:
        refused = await post(served, where, what, **headers)
        assert (refused.status_code, refused.json()["error"]["code"]) == (422, "idempotency_key_reused")
    assert served.prompts() == ["apple"]


async def test_c19_tool_calls_are_told_again(served: Served) -> None:
    function = {"type": "function", "function": {"name": "look", "parameters": {"type": "object", "properties": {}}}}
    asked = [{"role": "user", "content": "!call look {}"}]
    body = {"model": "demo", "messages": asked, "tools": [function], "stream": True}
    first, again = [await post(served, CHAT[0], body) for _ in range(2)]
    for stream in (first, again):
        assert '"finish_reason":"tool_calls"' in stream.text
        assert '"name":"look"' in stream.text
    assert len(served.prompts()) == 1


async def test_c19_a_repeated_command_is_obeyed_once(served: Served) -> None:
    await served.http.post(SAY[0], json=SAY[1])
    first, again = [await post(served, SAY[0], {"text": "/new"}) for _ in range(2)]
    assert first.content == again.content
    assert served.rows("select count(*) from sessions") == [(2,)]
    streamed, told = [
        await served.http.post(SAY[0], json={"text": "/help", "stream": True}, headers={"idempotency-key": "s"})
        for _ in range(2)
    ]
    assert streamed.text == told.text


@pytest.mark.parametrize("stream", [False, True])
async def test_c19_a_failure_of_the_agent_is_told_again_and_nothing_is_retried(served: Served, stream: bool) -> None:
    body = {"model": "demo", "messages": [{"role": "user", "content": "begun\n!die 3"}], "stream": stream}
    first, again = [await post(served, CHAT[0], body) for _ in range(2)]
    assert first.status_code == again.status_code == (200 if stream else 502)
    assert '"error"' in again.text
    assert len(served.prompts()) == 1


@pytest.mark.parametrize(("path", "body"), [CHAT, SAY, ("/v1/responses", {"model": "demo", "input": "apple"})])
async def test_c19_what_no_agent_was_heard_for_is_tried_again(tmp_path: Path, path: str, body: dict[str, Any]) -> None:
    async with serving(tmp_path / "data", providers={"demo": {"command": ["/bin/false"]}}) as served:
        refused = [await post(served, path, body) for _ in range(2)]
        assert [answer.status_code for answer in refused] == [503, 503]
    async with serving(tmp_path / "data") as served:
        assert (await post(served, path, body)).status_code == 200
