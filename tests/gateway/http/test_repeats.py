"""`Idempotency-Key` wherever an agent is asked: the same answer again, whole or streamed, and no second prompt."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.requests import ClientDisconnect, Request

from ostler.gateway.http.idempotency import IdempotentAnswers, Repeat
from ostler.gateway.http.streaming import WATCH, OpenAnswer
from ostler.gateway.model.ask import Ask
from ostler.gateway.model.outcome import StopCause
from ostler.gateway.turns.answer import AnswerStream
from ostler.gateway.turns.timings import TurnTimings
from ostler.gateway.turns.turn import Turn
from ostler.pool.keys import TransportKey
from tests.support.answers import deltas
from tests.support.served import SESSION, Served, serving
from tests.support.waiting import eventually, soon

KEY = {"idempotency-key": "k"}
CHAT = ("/v1/chat/completions", {"model": "demo", "messages": [{"role": "user", "content": "apple"}]})
SAY = ("/v1/sessions/me/messages", {"text": "apple"})
RESPONSE = ("/v1/responses", {"model": "demo", "input": "apple"})
SLOW = "begun\n!sleep 0.5\nover"


def slowly(path: str, body: dict[str, Any]) -> dict[str, Any]:
    """The same request with an answer that takes its time."""
    if "text" in body:
        return {**body, "text": SLOW, "stream": True}
    if "input" in body:
        return {**body, "input": SLOW, "stream": True}
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


@pytest.mark.parametrize(("path", "body"), [CHAT, SAY, RESPONSE])
async def test_c19_what_no_agent_was_heard_for_is_tried_again(tmp_path: Path, path: str, body: dict[str, Any]) -> None:
    async with serving(tmp_path / "data", providers={"demo": {"command": ["/bin/false"]}}) as served:
        refused = [await post(served, path, body) for _ in range(2)]
        assert [answer.status_code for answer in refused] == [503, 503]
    async with serving(tmp_path / "data") as served:
        assert (await post(served, path, body)).status_code == 200


@pytest.mark.parametrize(("path", "body"), [CHAT, SAY, RESPONSE])
async def test_c19_a_stream_no_agent_was_heard_for_is_tried_again(
    tmp_path: Path, path: str, body: dict[str, Any]
) -> None:
    body = {**body, "stream": True}
    async with serving(tmp_path / "data", providers={"demo": {"command": ["/bin/false"]}}) as served:
        first, again = [await post(served, path, body) for _ in range(2)]
        assert "echo: apple" not in first.text
        assert ids(first.text).isdisjoint(ids(again.text))
    async with serving(tmp_path / "data") as served:
        assert "echo: apple" in (await post(served, path, body)).text


def ids(stream: str) -> set[str]:
    """The answers that a stream is about."""
    events = [json.loads(line[6:]) for line in stream.splitlines() if line.startswith("data: {")]
    told = [event.get("response") or event.get("message") or event for event in events]
    return {event["id"] for event in told if "id" in event}


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("path", "body", "name"),
    [
        (*CHAT, {"x-ostler-session": "me"}),
        (*SAY, {}),
        ("/v1/responses", {**RESPONSE[1], "conversation": "me"}, {}),
    ],
)
async def test_c19_a_turn_that_was_stopped_in_the_queue_is_asked_once_more(
    served: Served, path: str, body: dict[str, Any], name: dict[str, str], stream: bool
) -> None:
    body = {**body, "stream": stream}
    busy = asyncio.create_task(served.http.post(path, json={**body, **blocking(body)}, headers=name))
    await eventually(lambda: len(served.prompts()) == 1, "the session is at work")
    leaving = asyncio.create_task(post(served, path, body, **name))
    session = served.gateway.sessions.find(served.rows("select id from sessions")[0][0])
    assert session is not None
    await eventually(lambda: session.waiting == 1, "the turn stands in the queue")
    leaving.cancel()
    await eventually(lambda: session.waiting == 0, "the client is known to have left")
    busy.cancel()
    answer = await post(served, path, body, **name)
    assert (answer.status_code, "echo: apple" in answer.text) == (200, True)
    assert len(served.prompts()) == 2


def blocking(body: dict[str, Any]) -> dict[str, Any]:
    """What keeps the agent of any face at work."""
    field = next(name for name in ("text", "input", "messages") if name in body)
    return {field: [{"role": "user", "content": "!sleep 60"}] if field == "messages" else "!sleep 60"}


@pytest.mark.parametrize(("path", "body"), [CHAT, SAY, RESPONSE])
async def test_c19_who_reads_along_is_not_cut_off_when_the_first_client_leaves(
    served: Served, path: str, body: dict[str, Any]
) -> None:
    body = slowly(path, body)
    async with AsyncExitStack() as first, AsyncExitStack() as second:
        told, along = [
            (await each.enter_async_context(served.http.stream("POST", path, json=body, headers=KEY))).aiter_lines()
            for each in (first, second)
        ]
        for lines in (told, along):
            await until("begun", lines)
        await first.aclose()
        rest = "".join([line async for line in along])
    assert "over" in rest
    assert "client_disconnected" not in rest
    assert len(served.prompts()) == 1


async def until(word: str, lines: AsyncIterator[str]) -> None:
    """Read as far as this word."""
    async for line in lines:
        if word in line:
            return
    raise AssertionError(f"the stream ended without {word!r}")


@pytest.mark.parametrize(("path", "body"), [CHAT, SAY, RESPONSE])
async def test_e17_the_last_reader_of_a_stream_stops_its_turn(served: Served, path: str, body: dict[str, Any]) -> None:
    body = {**body, **blocking(body), "stream": True}
    streams = [asyncio.create_task(post(served, path, body)) for _ in range(2)]
    await eventually(lambda: bool(served.prompts()), "the agent is asked")
    for stream in streams:
        assert served.gateway.sessions.running
        stream.cancel()
    await eventually(lambda: not served.gateway.sessions.running, "the turn is stopped")


def waiting_clients() -> int:
    """Clients of whole answers: the gateway runs on our loop."""
    return sum(task.get_name() == WATCH for task in asyncio.all_tasks())


async def two_who_wait(served: Served, path: str, body: dict[str, Any]) -> list["asyncio.Task[httpx.Response]"]:
    """The first one's turn runs, and the second waits for it."""
    both = []
    for number in (1, 2):
        both.append(asyncio.create_task(post(served, path, body)))
        await eventually(lambda number=number: waiting_clients() == number and served.prompts(), f"{number} wait")
    return both


@pytest.mark.parametrize(("path", "body"), [CHAT, SAY, RESPONSE])
async def test_c19_who_waits_gets_the_answer_when_the_first_client_leaves(
    served: Served, path: str, body: dict[str, Any]
) -> None:
    first, second = await two_who_wait(served, path, {**slowly(path, body), "stream": False})
    first.cancel()
    await eventually(lambda: waiting_clients() < 2, "the first is known to have left")
    answer = await second
    assert (answer.status_code, "over" in answer.text) == (200, True)
    assert len(served.prompts()) == 1


@pytest.mark.parametrize("first_leaves_first", [True, False])
@pytest.mark.parametrize(("path", "body"), [CHAT, SAY, RESPONSE])
async def test_e17_the_last_one_who_waits_stops_the_turn(
    served: Served, path: str, body: dict[str, Any], first_leaves_first: bool
) -> None:
    both = await two_who_wait(served, path, {**body, **blocking(body)})
    early, late = both if first_leaves_first else reversed(both)
    early.cancel()
    await eventually(lambda: waiting_clients() == 1, "one has left")
    assert served.gateway.sessions.running
    late.cancel()
    await eventually(lambda: not served.gateway.sessions.running, "the turn is stopped")
    assert len(served.prompts()) == 1


@pytest.mark.parametrize("stream", [False, True])
async def test_c19_another_request_with_the_key_of_a_running_one_is_refused_at_once(
    served: Served, stream: bool
) -> None:
    running = asyncio.create_task(post(served, SAY[0], {"text": "!sleep 60", "stream": stream}))
    await eventually(lambda: bool(served.prompts()), "the first one runs")
    refused = await soon(asyncio.create_task(post(served, *SAY)), "the refusal")
    assert (refused.status_code, running.done()) == (422, False)
    running.cancel()


def an_answer() -> OpenAnswer:
    """The stream of a turn that runs nowhere."""
    ask, stream = Ask(TransportKey("demo", "demo", "/"), (), "", ()), AnswerStream("t")
    return OpenAnswer(stream, deltas, "sess_1", Turn("t", ask, stream, TurnTimings(lambda: 0.0)))


async def test_c19_an_end_that_comes_twice_leaves_the_next_request_its_key(served: Served) -> None:
    repeats, here = IdempotentAnswers(served.gateway.store), Request({"type": "http"}, asyncio.Event().wait)
    first, second, third = [Repeat("k", "", "same") for _ in range(3)]
    assert await repeats.begin(first, here) is None
    repeats.end(first)
    assert await repeats.begin(second, here) is None
    repeats.end(first)
    waiting = asyncio.create_task(repeats.begin(third, here))
    held = an_answer()
    repeats.hold(second, held)
    assert await soon(waiting, "the stream of the second") is held
    repeats.end(second)
    repeats.end(second)


async def test_c19_nobody_joins_a_stream_that_was_stopped(served: Served) -> None:
    repeats, here, held = (
        IdempotentAnswers(served.gateway.store),
        Request({"type": "http"}, asyncio.Event().wait),
        an_answer(),
    )
    first, second = [Repeat("k", "", "same") for _ in range(2)]
    assert await repeats.begin(first, here) is None
    repeats.hold(first, held)
    assert held.turn is not None
    held.turn.stop(StopCause.DISCONNECT)
    waiting = asyncio.create_task(repeats.begin(second, here))
    await eventually(lambda: waiting_clients() == 1, "the second waits")
    repeats.end(first)
    assert await soon(waiting, "the key") is None
    repeats.end(second)


async def test_c19_for_who_has_left_nothing_is_begun(served: Served) -> None:
    async def leave() -> dict[str, str]:
        return {"type": "http.disconnect"}

    repeats, here = IdempotentAnswers(served.gateway.store), Request({"type": "http"}, asyncio.Event().wait)
    first, second, third = [Repeat("k", "", "same") for _ in range(3)]
    assert await repeats.begin(first, here) is None
    waiting = asyncio.create_task(repeats.begin(second, Request({"type": "http"}, leave)))
    for _ in range(5):
        await asyncio.sleep(0)  # it begins to wait, and its client leaves
    repeats.end(first)
    with pytest.raises(ClientDisconnect):
        await soon(waiting, "the second")
    assert await repeats.begin(third, here) is None
    repeats.end(third)
