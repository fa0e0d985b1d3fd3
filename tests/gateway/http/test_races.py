"""What several clients do to one conversation at the same time: each test holds a turn at a known place, does the other
thing there, and looks at what is told and kept."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest

from ostler.wire.transcript import parse_transcript
from tests.support.serve_command import command, is_demo
from tests.support.served import SESSION, Served, serving, text_of
from tests.support.talks import locked
from tests.support.waiting import eventually

TOOLS = [
    {"type": "function", "name": name, "parameters": {"type": "object", "properties": {}}}
    for name in ("get_weather", "get_time")
]
CALL = "!call get_weather {}"
ITEM = {"type": "message", "role": "user", "content": "by the way: canary-wren"}


def output(response: dict[str, Any], said: str) -> list[dict[str, Any]]:
    """The results of every call of a response."""
    calls = [item for item in response["output"] if item["type"] == "function_call"]
    assert calls
    return [{"type": "function_call_output", "call_id": call["call_id"], "output": said} for call in calls]


def transcript(served: Served, session: str) -> list[tuple[str, str]]:
    """(role, text) of the active messages."""
    query = "select role, text from messages where session_id = ? and active = 1 order by id"
    return [(role, text) for role, text in served.rows(query, session)]


def told(prompt: str) -> list[tuple[str, str]]:
    """The earlier conversation that a prompt tells."""
    head, _, _ = prompt.partition("[end of transcript]")
    return parse_transcript(head + "[end of transcript]") or []


@pytest.fixture
async def slashing(tmp_path: Path) -> AsyncIterator[Served]:
    """A gateway whose OpenAI API takes commands."""
    async with serving(tmp_path / "data", gateway__commands_on_openai_api=True) as gateway:
        yield gateway


# --- names ---


async def ended_after(served: Served, done: Callable[[], Awaitable[object]]) -> dict[str, Any]:
    """A turn of the conversation x that is running while something is done, and has ended since."""
    made = (await served.ask("apple\n!sleep 60", conversation="x", background=True)).json()
    await eventually(served.prompts, "the agent is asked")
    await done()
    ended: dict[str, Any] = (await served.http.post(f"/v1/responses/{made['id']}/cancel")).json()
    assert ended["status"] == "cancelled"
    return ended


async def test_n19_a_conversation_deleted_while_its_turn_runs_stays_deleted(served: Served) -> None:
    ended = await ended_after(served, lambda: served.http.delete("/v1/conversations/x"))
    assert (await served.http.get("/v1/conversations/x")).status_code == 404
    assert "apple" not in await served.say("anew\n!recall", conversation="x")
    assert "apple" in await served.say("!recall", previous_response_id=ended["id"])


async def test_n19_a_conversation_begun_anew_while_the_old_turn_runs_stays_the_new_one(served: Served) -> None:
    async def begin_anew() -> None:
        await served.http.delete("/v1/conversations/x")
        assert await served.say("pear", conversation="x") == "echo: pear"

    await ended_after(served, begin_anew)
    assert await served.say("!recall", conversation="x") == "pear"


async def test_n19_a_conversation_moved_by_a_command_is_not_moved_back_by_the_turn_it_left(slashing: Served) -> None:
    asking = asyncio.create_task(slashing.ask("!sleep 60", conversation="x"))
    await eventually(slashing.prompts, "the agent is asked")
    moved = await slashing.ask("/new", conversation="x")
    assert (await asking).json()["status"] == "cancelled"
    after = await slashing.ask("anew\n!recall", conversation="x")
    assert (after.headers[SESSION], "sleep" in text_of(after.json())) == (moved.headers[SESSION], False)


async def test_n19_n22_what_is_done_to_a_conversation_while_it_is_summed_up_holds(slashing: Served) -> None:
    for number in range(2):
        slug = f"x{number}"
        for word in ("apple", "pear", "plum"):
            session = (await slashing.ask(word, conversation=slug)).headers[SESSION]
        at_work = slashing.gateway.sessions.find(session)
        assert at_work is not None
        with suspended_agents():
            compressing = asyncio.create_task(slashing.ask("/compress", conversation=slug))
            await eventually(lambda work=at_work: work.turn, "the agent is asked to sum up")
            added = await slashing.http.post(f"/v1/conversations/{slug}/items", json={"items": [ITEM]})
            assert added.status_code == 200
            if number:
                assert (await slashing.http.delete(f"/v1/conversations/{slug}")).status_code == 200
        child = (await compressing).headers[SESSION]
        assert child != session
        assert ("user", ITEM["content"]) in transcript(slashing, child)
    assert (await slashing.http.get("/v1/conversations/x0")).status_code == 200
    assert (await slashing.http.get("/v1/conversations/x1")).status_code == 404


@contextmanager
def suspended_agents() -> Iterator[None]:
    """Every agent of this gateway stands still, so whatever it is asked is under way until the end of the block."""
    agents = [child for child in psutil.Process().children(recursive=True) if is_demo(child)]
    assert agents
    for agent in agents:
        agent.suspend()
    try:
        yield
    finally:
        for agent in agents:
            agent.resume()


# --- forks ---


async def test_n20_two_that_go_on_from_one_response_at_once_are_forks(served: Served) -> None:
    for number in range(5):
        first = (await served.ask(f"apple {number}")).json()
        both = await asyncio.gather(
            *(served.ask(f"!recall\nquestion {name}", previous_response_id=first["id"]) for name in "ab")
        )
        assert [answer.status_code for answer in both] == [200, 200]
        assert len({answer.headers[SESSION] for answer in both}) == 2
        for name, answer in zip("ab", both, strict=True):
            assert text_of(answer.json()) == f"apple {number}\necho: question {name}"
            went_on = await served.say("!recall", previous_response_id=answer.json()["id"])
            assert went_on == f"apple {number}\n!recall\nquestion {name}"


async def test_n20_a_fork_from_a_response_whose_continuation_runs_does_not_wait_for_it(served: Served) -> None:
    first = (await served.ask("apple")).json()
    held = (await served.ask(CALL, tools=TOOLS, previous_response_id=first["id"])).json()
    fork = await served.ask("!recall", previous_response_id=first["id"])
    assert text_of(fork.json()) == "apple"
    done = await served.ask(output(held, "sunny"), previous_response_id=held["id"])
    assert text_of(done.json()) == "sunny"


async def test_n20_only_one_goes_on_from_a_response_that_is_still_made(served: Served) -> None:
    made = (await served.ask("!sleep 60", background=True)).json()
    await eventually(served.prompts, "the agent is asked")
    second = (await served.ask("after it", previous_response_id=made["id"], background=True)).json()
    third = await served.ask("beside it", previous_response_id=made["id"])
    assert (third.status_code, third.json()["error"]["code"]) == (409, "response_in_progress")
    await served.http.post(f"/v1/responses/{made['id']}/cancel")
    await eventually(lambda: len(served.prompts()) > 1, "the second is asked")
    assert second["status"] == "queued"
    fork = await served.ask("!recall", previous_response_id=made["id"])
    assert "after it" not in text_of(fork.json())


async def test_n20_what_a_stateless_client_resends_does_not_lead_to_a_session_that_went_on(served: Served) -> None:
    first = (await served.ask("apple")).json()
    await served.say("canary-heron", previous_response_id=first["id"])
    resent = [
        {"role": "user", "content": "apple"},
        {"role": "assistant", "content": "echo: apple"},
        {"role": "user", "content": "!recall"},
    ]
    assert await served.say(resent) == "apple"


async def test_n21_a_fork_has_the_instructions_that_held_at_its_response(served: Served) -> None:
    first = (await served.ask("apple", instructions="Be brief.")).json()
    second = (await served.ask("pear", previous_response_id=first["id"])).json()
    await served.ask("plum", previous_response_id=second["id"], instructions="Be long.")
    for response in (first, second):
        await served.ask("one more", previous_response_id=response["id"])
        _, _, new = served.prompts()[-1].partition("[end of transcript]")
        assert "Be brief.\n[end of instructions]\none more" in new


async def test_n21_n20_a_fork_does_not_get_the_instructions_of_its_sibling(served: Served) -> None:
    first = (await served.ask("apple")).json()
    await asyncio.gather(
        served.ask("loud", previous_response_id=first["id"], instructions="Be loud."),
        served.ask("calm", previous_response_id=first["id"]),
    )
    (calm,) = [prompt for prompt in served.prompts() if prompt.endswith("calm")]
    assert "Be loud." not in calm


# --- items ---


async def test_n22_an_item_added_while_a_turn_runs_is_told_with_the_next_prompt(served: Served) -> None:
    first = (await served.ask(CALL, tools=TOOLS, conversation="x")).json()
    added = await served.http.post("/v1/conversations/x/items", json={"items": [ITEM]})
    assert added.status_code == 200
    await served.ask(output(first, "sunny"), tools=TOOLS, conversation="x")
    assert "canary-wren" in await served.say("!recall", tools=TOOLS, conversation="x")
    assert told(served.prompts()[-1]) == [("user", ITEM["content"])]
    assert (await served.say("!recall", tools=TOOLS, conversation="x")).count("canary-wren") == 1
    assert served.seats() == 1


async def test_n22_n23_an_item_added_to_a_turn_that_is_taken_back_stays(served: Served) -> None:
    await served.say("apple", conversation="x")
    session = (await served.ask("pear", conversation="x")).headers[SESSION]
    (turn_of,) = [served.gateway.sessions.find(session)]
    assert turn_of is not None
    with locked(served):
        asking = asyncio.create_task(served.ask("canary-phantom", conversation="x"))
        await eventually(lambda: turn_of.turn, "the turn begins")
        adding = asyncio.create_task(served.http.post("/v1/conversations/x/items", json={"items": [ITEM]}))
        # A read is answered on the same connection pool behind it, so the item stands in the writer's queue by then.
        await served.http.get("/v1/conversations/x")
        asking.cancel()
        await eventually(lambda: turn_of.turn is None or turn_of.turn.stopped, "the turn is stopped")
    assert (await adding).status_code == 200
    await eventually(lambda: not turn_of.busy, "the end of the turn")
    said = [text for _, text in transcript(served, session)]
    assert said == ["apple", "echo: apple", "pear", "echo: pear", ITEM["content"]]
    assert "canary-wren" in await served.say("!recall", conversation="x")


# --- stops ---


async def test_n23_a_message_stopped_while_it_is_stored_is_told_or_not_in_the_history(served: Served) -> None:
    session = (await served.ask("apple", conversation="x")).headers[SESSION]
    at_work = served.gateway.sessions.find(session)
    assert at_work is not None
    with locked(served):
        asking = asyncio.create_task(served.ask("canary-phantom", conversation="x"))
        await eventually(lambda: at_work.turn, "the turn begins")
        asking.cancel()
        await eventually(lambda: at_work.turn is None or at_work.turn.stopped, "the turn is stopped")
    await eventually(lambda: not at_work.busy, "the end of the turn")
    assert await served.say("!recall", conversation="x") == "apple"
    heard = "\n".join(served.prompts())
    assert [text for _, text in transcript(served, session) if "phantom" in text and text not in heard] == []
    assert ("user", "canary-phantom") not in transcript(served, session)


async def test_n23_of_many_stops_at_any_moment_none_leaves_a_phantom(served: Served) -> None:
    """The n-th is stopped after the n-th chunk that its stream brings, or as soon as its request is under way."""
    session = (await served.ask("apple", conversation="x")).headers[SESSION]
    for number in range(60):
        body = {"model": "demo", "input": f"canary {number}.\n!sleep 60", "conversation": "x", "stream": True}
        asking = asyncio.create_task(served.http.post("/v1/responses", json=body))
        for _ in range(number):
            await asyncio.sleep(0)
        asking.cancel()
        await asyncio.wait([asking])
    at_work = served.gateway.sessions.find(session)
    assert at_work is None or await idle(served, session)
    heard = "\n".join(served.prompts())
    users = [text for role, text in transcript(served, session) if role == "user"]
    assert [text for text in users if text not in heard] == []


async def idle(served: Served, session: str) -> bool:
    """Wait until nothing runs there."""

    def quiet() -> bool:
        at_work = served.gateway.sessions.find(session)
        return at_work is None or not at_work.busy

    await eventually(quiet, "the session to be quiet")
    return True


# --- results ---


async def test_n24_a_result_sent_twice_is_taken_once(served: Served) -> None:
    first = (await served.ask(CALL, tools=TOOLS, conversation="x")).json()
    results = output(first, "sunny")
    done = await served.ask(results, tools=TOOLS, conversation="x")
    assert text_of(done.json()) == "sunny"
    for reference in ({"conversation": "x"}, {"previous_response_id": first["id"]}, {}):
        again = await served.ask(results, tools=TOOLS, **reference)
        assert (again.status_code, again.json()["error"]["code"]) == (409, "call_answered"), again.text
    assert served.rows("select count(*) from messages where role = 'tool'") == [(1,)]
    assert len(served.prompts()) == 1


async def test_n24_two_that_bring_one_result_at_once_are_one_answer_and_one_error(served: Served) -> None:
    for name in "abcde":
        first = (await served.ask(CALL, tools=TOOLS, conversation=name)).json()
        both = await asyncio.gather(*(served.ask(output(first, "sunny"), conversation=name) for _ in range(2)))
        assert sorted(answer.status_code for answer in both) == [200, 409]
    assert served.rows("select count(*) from messages where role = 'tool'") == [(5,)]
    assert len(served.prompts()) == 5


async def test_n24_a_result_sent_twice_after_a_restart_is_taken_once(tmp_path: Path) -> None:
    async with serving(tmp_path / "data") as served:
        first = (await served.ask(CALL, tools=TOOLS, conversation="x")).json()
    async with serving(tmp_path / "data") as served:
        both = await asyncio.gather(*(served.ask(output(first, "sunny"), conversation="x") for _ in range(2)))
        assert sorted(answer.status_code for answer in both) == [200, 409]
        later = await served.ask(output(first, "sunny"), conversation="x")
        assert later.status_code == 409
        assert served.rows("select count(*) from messages where role = 'tool'") == [(1,)]


async def test_n24_n23_a_result_taken_back_with_its_turn_can_be_sent_again(tmp_path: Path) -> None:
    async with serving(tmp_path / "data") as served:
        first = (await served.ask(CALL, tools=TOOLS, conversation="x")).json()
    async with serving(tmp_path / "data", providers__demo__command=["/nonexistent/agent"]) as served:
        failed = await served.ask(output(first, "sunny"), conversation="x")
        assert failed.status_code == 503
    async with serving(tmp_path / "data") as served:
        again = await served.ask(output(first, "sunny"), conversation="x")
        assert again.status_code == 200, again.text
        assert served.rows("select text from messages where role = 'tool' and active = 1") == [("sunny",)]


# --- restarts ---


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_n25_a_queued_background_message_is_in_its_conversation_after_a_restart(tmp_path: Path, number: int) -> None:
    def post(http: httpx.Client, path: str, body: dict[str, Any]) -> dict[str, Any]:
        answer = http.post(path, json={"model": "demo", **body})
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    with command(tmp_path) as running, running.http() as http:
        first = post(http, "/v1/responses", {"input": CALL, "tools": TOOLS, "conversation": "x"})
        held = post(http, "/v1/responses", {"input": "!sleep 60", "conversation": "x", "background": True})
        queued = [
            post(http, "/v1/responses", {"input": f"canary-{name}", "conversation": "x", "background": True})
            for name in ("heron", "wren")
        ]
        assert [one["status"] for one in queued] == ["queued", "queued"]
        assert first["output"]
        assert held["id"]
        running.end(number)
    with command(tmp_path) as running, running.http() as http:
        items = http.get("/v1/conversations/x/items", params={"order": "asc"}).json()["data"]
        said = [part["text"] for item in items if item.get("role") == "user" for part in item["content"]]
        assert said == [CALL, "!sleep 60", "canary-heron", "canary-wren"]
        for one in queued:
            # A gateway that is killed can say nothing; one that drains says that nobody will work on it.
            ended = http.get(f"/v1/responses/{one['id']}").json()
            assert ended["status"] == ("incomplete" if number == signal.SIGKILL else "failed")
        recalled = text_of(post(http, "/v1/responses", {"input": "!recall", "conversation": "x"}))
        assert [recalled.count(f"canary-{name}") for name in ("heron", "wren")] == [1, 1]
    with command(tmp_path) as running, running.http() as http:
        again = http.get("/v1/conversations/x/items", params={"order": "asc"}).json()["data"]
        assert json.dumps(again).count("canary-heron") == 2  # once asked, once in what was recalled
