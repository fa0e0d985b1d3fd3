"""Clients that leave at the wrong moment, bodies that cannot be written down, faults of ours.

Whoever asked gets an end, and what was held for them is given back.
"""

import asyncio
import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ostler.gateway.model.outcome import StopCause
from ostler.gateway.model.records import TurnCommit
from ostler.gateway.stores.sqlite import SqliteStore
from ostler.gateway.turns.reports import TurnObservers
from tests.support.chats import Chat
from tests.support.openai_oracle import judge_response, judge_stream
from tests.support.recorder import RecordingObserver
from tests.support.served import Served, events_of, serving, text_of
from tests.support.waiting import eventually, soon

FUNCTION = {"type": "function", "name": "lookup", "parameters": {"type": "object", "properties": {}}}
CALL = "!call lookup {}"


def nested(levels: int) -> dict[str, Any]:
    """So many objects in each other."""
    value: dict[str, Any] = {}
    for _ in range(levels):
        value = {"in": value}
    return value


def deep_bodies() -> Iterator[tuple[str, dict[str, Any]]]:
    """A body for each route and each place where anything may stand."""
    deep = nested(300)
    said = {"role": "user", "content": [{"type": "input_text", "text": "x", "more": deep}]}
    for fields in (
        {"tools": [{**FUNCTION, "parameters": {"type": "object", "properties": deep}}]},
        {"text": deep},
        {"reasoning": {"effort": deep}},
        {"input": [said]},
        {"input": [{"role": "user", "content": "x", "id": [[[deep]]]}]},
    ):
        yield "/v1/responses", {"model": "demo", "input": "x", **fields}
    yield "/v1/chat/completions", {"model": "demo", "messages": [said]}
    yield "/v1/conversations", {"items": [said]}


@pytest.mark.parametrize(("path", "body"), list(deep_bodies()))
@pytest.mark.asyncio(loop_scope="module")
async def test_z05_what_could_not_be_written_down_again_is_not_taken_in(
    untouched: Served, path: str, body: dict[str, Any]
) -> None:
    refused = await untouched.http.post(path, json=body)
    assert (refused.status_code, refused.json()["error"]["code"]) == (400, "invalid_json")
    assert untouched.rows("select count(*) from sessions") == [(0,)]


async def test_z05_what_is_just_not_too_deep_is_echoed_and_stored(served: Served) -> None:
    body = {"model": "demo", "input": "hello", "text": {"format": {"type": "text"}, "more": nested(120)}}
    made = await served.http.post("/v1/responses", json=body)
    assert made.status_code == 200, made.text
    read = await served.http.get(f"/v1/responses/{made.json()['id']}")
    assert read.json()["text"]["more"] == nested(120)


@pytest.mark.parametrize(
    "query",
    ["stream=true&starting_after=--5", "stream=true&starting_after=%C2%B2", f"stream=true&starting_after={'9' * 5000}"],
)
async def test_z05_a_place_in_a_stream_is_a_number(served: Served, query: str) -> None:
    made = (await served.ask("hello", background=True)).json()
    refused = await served.http.get(f"/v1/responses/{made['id']}?{query}")
    assert (refused.status_code, refused.json()["error"]["param"]) == (400, "starting_after")


async def test_z05_a_page_is_not_longer_than_any_list(served: Served) -> None:
    made = (await served.ask("hello")).json()
    refused = await served.http.get(f"/v1/responses/{made['id']}/input_items?limit={'9' * 5000}")
    assert (refused.status_code, refused.json()["error"]["param"]) == (400, "limit")


@pytest.mark.asyncio(loop_scope="module")
async def test_z05_calls_that_are_no_list_are_refused(untouched: Served) -> None:
    messages = [{"role": "assistant", "content": None, "tool_calls": 5}, {"role": "user", "content": "x"}]
    refused = await untouched.http.post("/v1/chat/completions", json={"model": "demo", "messages": messages})
    assert (refused.status_code, refused.json()["error"]["param"]) == (400, "messages[0].tool_calls")


@pytest.mark.parametrize("model", ["demo/--yolo", "demo/a\0b", "demo/a\nb", "demo/" + "x" * 201])
@pytest.mark.asyncio(loop_scope="module")
async def test_a_model_is_a_name_and_never_an_option_of_the_agents_command(untouched: Served, model: str) -> None:
    refused = await untouched.ask("hello", model=model)
    assert (refused.status_code, refused.json()["error"]["param"]) == (404, "model")
    assert untouched.starts() == 0


async def test_ids_that_are_no_words_are_replaced(served: Served) -> None:
    made = (await served.ask([{"role": "user", "content": "x", "id": 7}])).json()
    (item,) = (await served.http.get(f"/v1/responses/{made['id']}/input_items")).json()["data"]
    assert item["id"].startswith("msg_")


async def test_e17_a_client_that_is_gone_before_its_stream_begins_cancels_the_turn(served: Served) -> None:
    body = json.dumps({"model": "demo", "input": "!sleep 60", "conversation": "x", "stream": True}).encode()
    _, writer = await asyncio.open_connection("127.0.0.1", int(served.base.rsplit(":", 1)[1]))
    writer.write(b"POST /v1/responses HTTP/1.1\r\nhost: localhost\r\ncontent-length: %d\r\n\r\n" % len(body) + body)
    writer.close()
    await writer.wait_closed()
    await eventually(lambda: served.rows("select status from responses"), "the request is taken in")
    await eventually(lambda: served.rows("select status from responses") == [("incomplete",)], "its turn is stopped")
    assert not served.gateway.sessions.running


async def test_a_turn_that_is_cancelled_in_the_queue_ends_at_once_and_frees_its_place(tmp_path: Path) -> None:
    async with serving(tmp_path / "data", gateway__queue_max=1) as served:
        running = (await served.ask("!sleep 60", background=True, conversation="x")).json()
        await eventually(lambda: bool(served.prompts()), "the first turn runs")
        for word in ("one", "two"):
            waiting = (await served.ask(word, background=True, conversation="x")).json()
            cancel = served.http.post(f"/v1/responses/{waiting['id']}/cancel")
            cancelled = (await soon(cancel, "the end of a turn that only waits")).json()
            assert (cancelled["status"], cancelled["output"]) == ("cancelled", [])
            judge_response(cancelled)
        await served.http.post(f"/v1/responses/{running['id']}/cancel")
        assert await served.say("!recall", conversation="x") == "!sleep 60"
        assert len(served.prompts()) == 2


async def test_clients_that_leave_the_queue_do_not_keep_others_out(tmp_path: Path) -> None:
    async with serving(tmp_path / "data", gateway__queue_max=2) as served:
        running = (await served.ask("!sleep 60", background=True, conversation="x")).json()
        await eventually(lambda: bool(served.prompts()), "the first turn runs")
        impatient = [asyncio.create_task(served.ask("hello", conversation="x")) for _ in range(2)]
        session = served.gateway.sessions.find(served.rows("select id from sessions")[0][0])
        assert session is not None
        await eventually(lambda: session.waiting == 2, "both wait")
        assert (await served.ask("no room", conversation="x")).status_code == 429
        for task in impatient:
            task.cancel()
        await eventually(lambda: session.waiting == 0, "they have left the queue")
        assert session.turn is not None
        later = (await served.ask("later", background=True, conversation="x")).json()
        await served.http.post(f"/v1/responses/{running['id']}/cancel")
        await served.http.get(f"/v1/responses/{later['id']}", params={"stream": "true"})
        assert text_of((await served.http.get(f"/v1/responses/{later['id']}")).json()) == "echo: later"


async def test_a_key_with_all_its_turns_running_can_still_stop_one(tmp_path: Path) -> None:
    async with serving(tmp_path / "data", auth__concurrency=1) as served:
        running = asyncio.create_task(served.ask("!sleep 60", conversation="x"))
        await eventually(lambda: bool(served.prompts()), "the turn runs")
        assert (await served.ask("one too many")).status_code == 429
        (response,) = served.rows("select id from responses")[0]
        cancelled = await served.http.post(f"/v1/responses/{response}/cancel")
        assert cancelled.json()["status"] == "cancelled"
        assert (await running).json()["status"] == "cancelled"


async def test_a_background_response_is_made_once_for_each_idempotency_key(served: Served) -> None:
    body = {"model": "demo", "input": "!sleep 60", "background": True}
    headers = {"idempotency-key": "k"}
    first = await served.http.post("/v1/responses", json=body, headers=headers)
    again = await served.http.post("/v1/responses", json=body, headers=headers)
    assert again.content == first.content
    other = await served.http.post("/v1/responses", json={**body, "input": "else"}, headers=headers)
    assert other.status_code == 422
    await served.http.post(f"/v1/responses/{first.json()['id']}/cancel")
    assert served.rows("select count(*) from responses") == [(1,)]


async def test_a_stream_is_made_once_for_each_idempotency_key(tmp_path: Path) -> None:
    body = {"model": "demo", "input": "begun\n!sleep 0.3\n!stream 20", "stream": True}
    headers = {"idempotency-key": "k"}
    async with serving(tmp_path / "data") as served:

        async def read(**more: Any) -> tuple[int, str]:
            answer = await served.http.post("/v1/responses", json={**body, **more}, headers=headers)
            return answer.status_code, answer.text

        first, beside = await asyncio.gather(read(), read())
        assert first[0] == 200
        judge_stream(events_of(first[1]))
        assert beside == first
        assert await read() == first
        assert (await read(input="else"))[0] == 422
        assert len(served.prompts()) == 1
    async with serving(tmp_path / "data") as served:
        gone = await served.http.post("/v1/responses", json=body, headers=headers)
        assert (gone.status_code, gone.json()["error"]["code"]) == (409, "stream_gone")
        assert len(served.prompts()) == 1


async def test_e23_a_drain_waits_for_turns_and_not_for_clients(served: Served) -> None:
    parked = (await served.ask(CALL, tools=[FUNCTION], conversation="parked")).json()
    assert parked["output"][0]["type"] == "function_call"
    running = asyncio.create_task(served.ask("!sleep 0.5\ndone", conversation="running"))
    later = asyncio.create_task(served.ask(f"!sleep 0.2\n{CALL}", tools=[FUNCTION], conversation="parks later"))
    await eventually(lambda: len(served.prompts()) == 3, "all are at work")
    await soon(served.gateway.sessions.drain(60), "the end of the drain")
    assert text_of((await running).json()) == "echo: done"
    assert (await later).json()["output"][0]["type"] == "function_call"


async def test_a_fault_of_ours_at_the_end_of_a_turn_is_told_and_the_next_one_runs(served: Served) -> None:
    class Faulty(SqliteStore):
        """Fails as no store of ours should."""

        async def commit_turn(self, turn: TurnCommit) -> list[int]:
            raise ZeroDivisionError

    sessions, good = served.gateway.sessions, served.gateway.store
    assert isinstance(good, SqliteStore)
    faulty = Faulty.__new__(Faulty)
    faulty.__dict__.update(good.__dict__)
    sessions.deps = replace(sessions.deps, store=faulty)
    asking = [asyncio.create_task(served.ask("hello", conversation="x")) for _ in range(2)]
    for task in asking:
        failed = await soon(task, "an end, whatever happens")
        assert (failed.status_code, failed.json()["status"]) == (200, "failed")
        assert failed.json()["completed_at"] is None
    events = await soon(served.stream("hello", conversation="x"), "the end of a stream")
    assert events[-1]["type"] == "response.failed"
    await eventually(lambda: not sessions.running, "nothing is left behind")


async def test_whoever_fails_to_hear_of_an_end_keeps_no_client_waiting(tmp_path: Path) -> None:
    class Deaf(RecordingObserver):
        """Cannot bear an end."""

        def turn_ended(self, *_: object) -> None:
            self.raised += 1
            raise ZeroDivisionError

    witness, observer = Deaf(), Deaf()
    async with serving(tmp_path / "data", observer=witness) as served:
        sessions, chat = served.gateway.sessions, Chat(served)
        sessions.deps = replace(sessions.deps, turns=TurnObservers(observer, sessions.deps.turns))
        for word in ("one", "two"):
            assert (await soon(chat.said(word), "an answer, whatever happens"))["text"] == f"echo: {word}"
        assert (witness.raised, observer.raised) == (2, 2)


@pytest.mark.parametrize("stream", [False, True])
async def test_an_end_that_cannot_be_reported_is_stored_and_told_and_frees_its_key(
    tmp_path: Path, stream: bool
) -> None:
    class Deaf(RecordingObserver):
        """Cannot bear an end."""

        def turn_ended(self, *_: object) -> None:
            raise ZeroDivisionError

    body = {"model": "demo", "input": "hello", "stream": stream}
    async with serving(tmp_path / "data") as served:
        sessions = served.gateway.sessions
        sessions.deps = replace(sessions.deps, turns=Deaf())
        for _ in range(2):
            asking = served.http.post("/v1/responses", json=body, headers={"idempotency-key": "k"})
            answer = await soon(asking, "an answer, whatever happens")
            assert "echo: hello" in answer.text
        assert len(served.prompts()) == 1


async def test_sessions_that_are_only_remembered_are_bounded_the_oldest_first(tmp_path: Path) -> None:
    async with serving(tmp_path / "data", gateway__seats_max=1, gateway__sessions_max=3) as served:
        sessions = []
        for name in "abcdef":
            await served.say(f"word {name}", conversation=name)
            sessions.append(served.rows("select session_id from conversations where slug = ?", name)[0][0])
        table = served.gateway.sessions
        assert [table.find(session) is not None for session in sessions] == [False, False, False, True, True, True]
        for name in "abcdef":
            assert await served.say("!recall", conversation=name) == f"word {name}"


async def test_a_seat_that_is_given_back_leaves_nothing_behind(tmp_path: Path) -> None:
    async with serving(tmp_path / "data", gateway__seats_max=2, gateway__sessions_max=4) as served:
        sessions = served.gateway.sessions
        others = len(sessions.deps.tasks)
        for number in range(12):
            await served.say(f"word {number}")
        await eventually(lambda: len(sessions.deps.tasks) == others + 2, "only the seats in use are watched")
        assert len(sessions) == 4
        assert served.gateway.pool.snapshot().core.census.leased == 2


async def test_a_stop_in_the_queue_is_final(served: Served) -> None:
    running = (await served.ask("!sleep 60", background=True, conversation="x")).json()
    await eventually(lambda: bool(served.prompts()), "the first turn runs")
    waiting = (await served.ask("never", background=True, conversation="x")).json()
    session = served.gateway.sessions.find(served.rows("select id from sessions")[0][0])
    assert session is not None
    session.stop_all(StopCause.DRAIN)
    session.stop_all(StopCause.DRAIN)
    await eventually(lambda: not session.busy, "all are told")
    ended = [(await served.http.get(f"/v1/responses/{one['id']}")).json()["status"] for one in (running, waiting)]
    assert ended == ["incomplete", "failed"]
    assert len(served.prompts()) == 1
