"""Responses over time: background, cancel, resumed streams, and turns that wait their turn."""

import asyncio
import json
from pathlib import Path

from tests.support.openai_oracle import judge_response, judge_stream
from tests.support.served import Served, events_of, serving, text_of
from tests.support.waiting import eventually


async def test_a_background_response_is_read_later(served: Served) -> None:
    made = (await served.ask("hello", background=True)).json()
    assert made["status"] in ("queued", "in_progress")
    judge_response(made)
    feed = await served.http.get(f"/v1/responses/{made['id']}", params={"stream": "true"})
    judge_stream(events_of(feed.text))
    done = (await served.http.get(f"/v1/responses/{made['id']}")).json()
    assert (done["status"], text_of(done)) == ("completed", "echo: hello")


async def test_a_cancelled_background_response_keeps_what_was_said(served: Served) -> None:
    made = (await served.ask("partial\n!sleep 60", background=True, conversation="x")).json()
    await eventually(lambda: bool(served.prompts()), "the agent is asked")
    cancelled = (await served.http.post(f"/v1/responses/{made['id']}/cancel")).json()
    assert cancelled["status"] == "cancelled"
    judge_response(cancelled)
    again = (await served.http.post(f"/v1/responses/{made['id']}/cancel")).json()
    assert again == cancelled
    assert (await served.say("!recall", conversation="x")).startswith("partial")


async def test_a_turn_that_waits_can_be_cancelled_and_leaves_nothing(served: Served) -> None:
    first = (await served.ask("!sleep 60", background=True, conversation="x")).json()
    await eventually(lambda: bool(served.prompts()), "the first turn runs")
    second = (await served.ask("never", background=True, conversation="x")).json()
    stopped = await served.http.post(f"/v1/responses/{second['id']}/cancel")
    assert stopped.json()["status"] == "cancelled"
    await served.http.post(f"/v1/responses/{first['id']}/cancel")
    assert "never" not in await served.say("!recall", conversation="x")


async def test_a_dropped_client_resumes_its_stream(served: Served) -> None:
    body = {"model": "demo", "input": "!stream 30\n!sleep 0.3\nend", "stream": True}
    headers = {"x-ostler-on-disconnect": "continue"}
    seen = []
    async with served.http.stream("POST", "/v1/responses", json=body, headers=headers) as answer:
        async for line in answer.aiter_lines():
            if line.startswith("data: "):
                seen.append(json.loads(line[6:]))
            if len(seen) == 5:
                break
    path = f"/v1/responses/{seen[0]['response']['id']}"
    rest = await served.http.get(path, params={"stream": "true", "starting_after": seen[-1]["sequence_number"]})
    judge_stream([*seen, *events_of(rest.text)])
    late = await served.http.get(path, params={"stream": "true"})
    judge_stream(events_of(late.text))


async def test_w23f_each_of_many_callers_of_a_busy_session_has_an_outcome_and_a_full_queue_is_said(
    tmp_path: Path,
) -> None:
    async with serving(tmp_path / "data", gateway__queue_max=2) as served:
        running = await served.ask("!sleep 60", background=True, conversation="x")
        await eventually(lambda: bool(served.prompts()), "the first turn runs")
        waiting = [(await served.ask(f"word{number}", background=True, conversation="x")).json() for number in range(2)]
        full = await served.ask("one too many", conversation="x")
        assert (full.status_code, "retry-after" in full.headers) == (429, True)
        await served.http.post(f"/v1/responses/{running.json()['id']}/cancel")
        for response in waiting:
            await served.http.get(f"/v1/responses/{response['id']}", params={"stream": "true"})
        asked = [running.json(), *waiting]
        ends = [(await served.http.get(f"/v1/responses/{response['id']}")).json() for response in asked]
        assert [end["status"] for end in ends] == ["cancelled", "completed", "completed"]
        assert [text_of(end) for end in ends[1:]] == ["echo: word0", "echo: word1"]
        recalled = (await served.say("!recall", conversation="x")).splitlines()
        assert recalled == ["!sleep 60", "word0", "word1"]


async def test_a16_seats_between_turns_are_bounded_and_come_back_with_their_history(tmp_path: Path) -> None:
    async with serving(tmp_path / "data", gateway__seats_max=2) as served:
        for name in "abc":
            await served.say(f"word {name}", conversation=name)
        assert len(served.gateway.sessions) <= 3
        assert served.gateway.pool.snapshot().core.census.leased == 2
        for name in "abc":
            assert await served.say("!recall", conversation=name) == f"word {name}"


async def test_a18_rows_that_somebody_else_stored_are_in_the_next_context(served: Served) -> None:
    from ostler.gateway.model.records import NewMessage

    first = await served.ask("apple", conversation="x")
    (session,) = served.rows("select session_id from conversations")[0]
    rows = [NewMessage("user", [], "pear"), NewMessage("assistant", [], "a fruit")]
    await served.gateway.store.append(session, rows)
    assert await served.say("!recall", conversation="x") == "apple\npear"
    assert first.status_code == 200


async def test_a_dead_agent_between_turns_costs_the_next_one_nothing_but_time(served: Served) -> None:
    await served.say("apple", conversation="x")
    (process,) = served.gateway.pool.snapshot().processes
    served.gateway.pool.kill(process.slot)
    assert await served.say("!recall", conversation="x") == "apple"


async def test_e13_two_sessions_run_at_once_on_one_process(served: Served) -> None:
    slow = asyncio.create_task(served.say("!sleep 60", conversation="slow"))
    await eventually(lambda: bool(served.prompts()), "the slow one runs")
    assert await served.say("quick", conversation="other") == "echo: quick"
    slow.cancel()
    await eventually(lambda: bool(served.frames("session/cancel")), "the slow one is cancelled")
    assert served.starts() == 1
