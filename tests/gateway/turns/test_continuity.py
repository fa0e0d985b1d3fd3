"""Group C: conversations go on, whatever was evicted, restarted, released or deleted in between."""

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest

from tests.support.served import SESSION, Served, serving, text_of
from tests.support.waiting import eventually

OTHERS = 6


async def fill(served: Served, count: int) -> None:
    """So many other stored responses."""
    for number in range(count):
        await served.say(f"other {number}")


async def test_c01_c02_a_slug_names_one_session(served: Served) -> None:
    first = await served.ask("apple", conversation="x")
    session = first.headers[SESSION]
    assert served.rows("select slug, response_id, session_id from conversations") == [
        ("x", first.json()["id"], session)
    ]
    second = await served.ask("!recall", conversation="x")
    assert second.headers[SESSION] == session
    assert text_of(second.json()) == "apple"
    assert served.seats() == 1
    assert served.prompts() == ["apple", "!recall"]


async def test_c03_c06_an_evicted_response_does_not_cost_the_history(tmp_path: Path) -> None:
    async with serving(tmp_path / "data", gateway__responses_max=5) as served:
        first = await served.ask("apple", conversation="x")
        await fill(served, OTHERS)
        assert (await served.http.get(f"/v1/responses/{first.json()['id']}")).status_code == 404
        second = await served.ask("!recall", conversation="x")
        assert (second.status_code, second.headers[SESSION]) == (200, first.headers[SESSION])
        assert text_of(second.json()) == "apple"


async def test_c04_c07_restarts_and_evictions_keep_one_session(tmp_path: Path) -> None:
    sessions = set()
    for round_ in range(4):
        async with serving(tmp_path / "data", gateway__responses_max=3) as served:
            answer = await served.ask(f"!recall\nword{round_}", conversation="x")
            sessions.add(answer.headers[SESSION])
            said = re.findall(r"word\d", text_of(answer.json()))
            assert said == [f"word{number}" for number in range(round_ + 1)]
            await fill(served, 4)
            (session,) = sessions
            counted = served.rows("select count(*) from messages where session_id = ?", session)
            assert counted == [(2 * (round_ + 1),)]


@pytest.mark.asyncio(loop_scope="module")
async def test_c08_c09_unknown_and_contradicting_references_change_nothing(untouched: Served) -> None:
    gone = await untouched.ask("hi", previous_response_id="resp_never")
    assert gone.status_code == 404
    assert "resp_never" in gone.json()["error"]["message"]
    both = await untouched.ask("hi", previous_response_id="resp_never", conversation="x")
    assert both.status_code == 400
    assert untouched.rows("select count(*) from sessions") == [(0,)]
    assert untouched.starts() == 0


async def test_c13_only_the_lookup_over_the_slug_row_is_logged(
    served: Served, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level("INFO")
    first = await served.ask("apple", conversation="x")
    await served.say("pear", conversation="x")
    found = [record for record in caplog.records if "its response is gone" in record.message]
    assert found == []
    latest = served.rows("select response_id from conversations")[0][0]
    await served.http.delete(f"/v1/responses/{latest}")
    await served.say("plum", conversation="x")
    (record,) = [record for record in caplog.records if "its response is gone" in record.message]
    assert "'x'" in record.message
    assert first.headers[SESSION] in record.message


async def test_c14_a_client_that_leaves_its_stream_cancels_the_turn(served: Served) -> None:
    body = {"model": "demo", "input": "partial\n!sleep 60", "conversation": "x", "stream": True}
    async with served.http.stream("POST", "/v1/responses", json=body) as answer:
        session = answer.headers[SESSION]
        async for line in answer.aiter_lines():
            if "output_text.delta" in line:
                break
    await eventually(lambda: bool(served.frames("session/cancel")), "the agent is told to cancel")
    query = "select response_id from conversations where response_id is not null"
    await eventually(lambda: bool(served.rows(query)), "the slug points at the response")
    stored = (await served.http.get(f"/v1/responses/{served.rows(query)[0][0]}")).json()
    assert stored["status"] == "incomplete"
    again = await served.ask("!recall", conversation="x")
    assert again.headers[SESSION] == session
    assert "partial" in text_of(again.json())
    roles = [role for (role,) in served.rows("select role from messages order by id")]
    assert roles == ["user", "assistant", "user", "assistant"]


async def test_c14_a_client_that_leaves_before_its_answer_cancels_the_turn(served: Served) -> None:
    asking = asyncio.create_task(served.ask("!sleep 60"))
    await eventually(lambda: bool(served.prompts()), "the agent is asked")
    asking.cancel()
    await eventually(lambda: bool(served.frames("session/cancel")), "the agent is told to cancel")


async def test_c15_store_false_keeps_nothing_retrievable_and_moves_no_slug(served: Served) -> None:
    first = await served.ask("apple", conversation="x", store=False)
    assert (await served.http.get(f"/v1/responses/{first.json()['id']}")).status_code == 404
    assert served.rows("select count(*) from conversations") == [(0,)]
    known = await served.ask("pear", conversation="x")
    hidden = await served.ask("plum", conversation="x", store=False)
    assert hidden.headers[SESSION] == known.headers[SESSION]
    assert served.rows("select response_id from conversations") == [(known.json()["id"],)]
    assert await served.say("!recall", conversation="x") == "pear\nplum"


async def test_c16_every_turn_sees_each_earlier_message_once(served: Served) -> None:
    for number in range(50):
        answer = await served.say(f"!recall\nword{number}.", conversation="x")
        assert re.findall(r"word\d+\.", answer) == [f"word{earlier}." for earlier in range(number + 1)]
    assert served.seats() == 1


async def test_c18_racing_first_turns_make_one_session(served: Served) -> None:
    answers = await asyncio.gather(*(served.ask(f"word{number}", conversation="x") for number in range(8)))
    assert len({answer.headers[SESSION] for answer in answers}) == 1
    assert {answer.status_code for answer in answers} == {200}
    roles = [role for (role,) in served.rows("select role from messages order by id")]
    assert roles == ["user", "assistant"] * 8
    assert served.seats() == 1


async def test_c19_an_idempotency_key_gives_the_same_answer_and_asks_once(served: Served) -> None:
    body = {"model": "demo", "input": "apple", "conversation": "x"}
    headers = {"idempotency-key": "k1"}
    first, second = [await served.http.post("/v1/responses", json=body, headers=headers) for _ in range(2)]
    assert first.content == second.content
    assert first.headers[SESSION] == second.headers[SESSION]
    assert served.prompts() == ["apple"]
    other = await served.http.post("/v1/responses", json={**body, "input": "pear"}, headers=headers)
    assert other.status_code == 422
    assert served.prompts() == ["apple"]


async def test_c19_two_at_once_with_one_key_ask_once(served: Served) -> None:
    body = {"model": "demo", "input": "apple"}
    headers = {"idempotency-key": "k1"}
    both = await asyncio.gather(*(served.http.post("/v1/responses", json=body, headers=headers) for _ in range(2)))
    assert both[0].content == both[1].content
    assert served.prompts() == ["apple"]


async def test_c20_deleting_the_latest_response_does_not_fork(served: Served) -> None:
    await served.say("apple", conversation="x")
    second = await served.ask("pear", conversation="x")
    deleted = await served.http.delete(f"/v1/responses/{second.json()['id']}")
    assert deleted.json() == {"id": second.json()["id"], "object": "response", "deleted": True}
    assert (await served.http.get(f"/v1/responses/{second.json()['id']}")).status_code == 404
    third = await served.ask("!recall", conversation="x")
    assert third.headers[SESSION] == second.headers[SESSION]
    assert text_of(third.json()) == "apple\npear"


@pytest.mark.parametrize("slug", [5, [], "", {}, {"id": 5}, "a" * 257, "a\tb"])
@pytest.mark.asyncio(loop_scope="module")
async def test_c21_a_bad_conversation_is_refused(untouched: Served, slug: Any) -> None:
    answer = await untouched.ask("hi", conversation=slug)
    assert answer.status_code == 400
    assert set(answer.json()["error"]) == {"message", "type", "param", "code"}
    assert untouched.rows("select count(*) from sessions") == [(0,)]


async def test_c21_both_forms_of_conversation_reach_the_same_session(served: Served) -> None:
    first = await served.ask("hi", conversation="x")
    second = await served.ask("hi", conversation={"id": "x"})
    assert first.headers[SESSION] == second.headers[SESSION]


async def test_c22_instructions_hold_for_the_session(tmp_path: Path) -> None:
    async with serving(tmp_path / "data") as served:
        await served.say("apple", conversation="x", instructions="Be brief.")
        await served.say("pear", conversation="x")
        assert ["Be brief." in prompt for prompt in served.prompts()] == [True, False]
    async with serving(tmp_path / "data") as served:
        await served.say("plum", conversation="x")
        assert "Be brief." in served.prompts()[-1]
        await served.say("fig", conversation="x", instructions="Be long.")
        assert "Be long." in served.prompts()[-1]
        assert "Be brief." not in served.prompts()[-1]


async def test_c23_a_history_in_the_request_is_the_context_of_that_turn_only(served: Served) -> None:
    first = await served.ask("apple", conversation="x")
    history = [{"role": "user", "content": "lemon"}, {"role": "assistant", "content": "sour"}]
    other = await served.ask("!recall", conversation="x", conversation_history=history)
    assert text_of(other.json()) == "lemon"
    assert other.headers[SESSION] == first.headers[SESSION]
    assert "apple" in await served.say("!recall", conversation="x")


async def test_c27_a_failed_turn_is_said_and_does_not_poison_the_next(served: Served) -> None:
    await served.say("apple", conversation="x")
    failed = await served.ask("broken\n!die 3", conversation="x")
    assert failed.status_code != 200 or failed.json()["status"] == "failed"
    recalled = await served.say("!recall", conversation="x")
    assert recalled.count("broken") <= 1
    assert recalled.startswith("apple")


@pytest.mark.parametrize(
    "body",
    [
        b"{",
        b"[]",
        b'{"model":"demo"}',
        b'{"input":5}',
        b'{"input":[{"role":"assistant","content":"x"}]}',
        b'{"input":""}',
    ],
)
@pytest.mark.asyncio(loop_scope="module")
async def test_c31_a_body_that_asks_nothing_is_refused(untouched: Served, body: bytes) -> None:
    answer = await untouched.http.post("/v1/responses", content=body)
    assert answer.status_code == 400
    assert set(answer.json()["error"]) == {"message", "type", "param", "code"}
    assert untouched.rows("select count(*) from sessions") == [(0,)]


async def test_going_on_from_an_older_response_forks(served: Served) -> None:
    first = await served.ask("apple")
    second = await served.ask("pear", previous_response_id=first.json()["id"])
    assert second.headers[SESSION] == first.headers[SESSION]
    fork = await served.ask("!recall", previous_response_id=first.json()["id"])
    assert fork.headers[SESSION] != first.headers[SESSION]
    assert text_of(fork.json()) == "apple"
    assert await served.say("!recall", previous_response_id=second.json()["id"]) == "apple\npear"
