"""Functions that the API client executes: parked, handed out, resumed, or given up."""

import asyncio
import json
from pathlib import Path
from typing import Any

import psutil

from tests.support.recorder import Wall
from tests.support.served import SESSION, Served, serving, text_of
from tests.support.waiting import eventually

TOOLS = [
    {"type": "function", "name": name, "parameters": {"type": "object", "properties": {}}}
    for name in ("get_weather", "get_time")
]
CALL = "!call get_weather {}"


def calls_of(response: dict[str, Any]) -> list[dict[str, Any]]:
    return [item for item in response["output"] if item["type"] == "function_call"]


def output(call: dict[str, Any], said: str) -> dict[str, Any]:
    return {"type": "function_call_output", "call_id": call["call_id"], "output": said}


async def test_calls_one_after_another_go_on_in_the_same_agent_turn(served: Served) -> None:
    first = (await served.ask(f"{CALL}\n!call get_time {{}}", tools=TOOLS, conversation="x")).json()
    (weather,) = calls_of(first)
    second = (await served.ask([output(weather, "sunny")], tools=TOOLS, conversation="x")).json()
    (time,) = calls_of(second)
    third = await served.ask([output(time, "noon")], tools=TOOLS, conversation="x")
    assert text_of(third.json()).strip() == "noon"
    assert len(served.prompts()) == 1
    roles = [role for (role,) in served.rows("select role from messages order by id")]
    assert roles == ["user", "assistant", "tool", "assistant", "tool", "assistant"]


async def test_text_before_a_call_is_part_of_the_first_answer(served: Served) -> None:
    first = (await served.ask(f"before\n{CALL}\nafter", tools=TOOLS)).json()
    assert text_of(first) == "echo: before"
    second = await served.ask([output(calls_of(first)[0], "sunny")], previous_response_id=first["id"])
    assert text_of(second.json()).strip() == "sunny\necho: after"


async def test_the_session_goes_on_warm_after_a_round_trip(served: Served) -> None:
    first = (await served.ask(CALL, tools=TOOLS, conversation="x")).json()
    await served.ask([output(calls_of(first)[0], "sunny")], tools=TOOLS, conversation="x")
    assert await served.say("!recall", tools=TOOLS, conversation="x") == CALL
    assert served.seats() == 1


async def test_outputs_that_leave_a_call_open_or_name_none_are_refused(served: Served) -> None:
    first = (await served.ask(CALL, tools=TOOLS, conversation="x")).json()
    unknown = await served.ask([{"type": "function_call_output", "call_id": "call_no", "output": "x"}])
    assert unknown.status_code == 400
    assert "call_no" in unknown.json()["error"]["message"]
    done = await served.ask([output(calls_of(first)[0], "sunny")], conversation="x")
    assert text_of(done.json()) == "sunny"


async def test_a_client_that_never_answers_costs_its_turn_and_no_more(tmp_path: Path) -> None:
    async with serving(tmp_path / "data", gateway__client_tool_deadline=0.2) as served:
        first = (await served.ask(CALL, tools=TOOLS, conversation="x")).json()
        assert calls_of(first)
        query = "select text from messages where role = 'assistant' order by id desc limit 1"
        await eventually(lambda: "in time" in served.rows(query)[0][0], "the agent hears that nobody answered")
        assert (await served.say("!recall", tools=TOOLS, conversation="x")).startswith(CALL)


async def test_a_new_question_takes_the_place_of_a_parked_turn(served: Served) -> None:
    await served.ask(CALL, tools=TOOLS, conversation="x")
    assert await served.say("hello", tools=TOOLS, conversation="x") == "echo: hello"


async def test_a_restart_between_call_and_output_is_bridged_by_replay(tmp_path: Path) -> None:
    async with serving(tmp_path / "data") as served:
        first = await served.ask(CALL, tools=TOOLS, conversation="x")
        call = calls_of(first.json())[0]
    async with serving(tmp_path / "data") as served:
        second = await served.ask([output(call, "sunny")], tools=TOOLS, conversation="x")
        assert second.status_code == 200, second.text
        assert second.headers[SESSION] == first.headers[SESSION]
        prompt = served.prompts()[-1]
        assert "get_weather" in prompt
        assert "sunny" in prompt


async def test_w42_a_turn_that_ended_while_its_client_worked_is_asked_again_with_the_result_once(
    served: Served,
) -> None:
    first = (await served.ask(CALL, tools=TOOLS, conversation="x")).json()
    for process in psutil.Process().children(recursive=True):
        if any("relay" in word for word in process.cmdline()):
            process.kill()  # the agent goes on without the result, and the bridge waits for the relay to come back
    await eventually(lambda: "end_turn" in served.record.read_text(), "the end of the agent's turn")
    # Asked behind the agent's last word on the same pipe, so the gateway has read that when this is answered.
    assert await served.say("hello", conversation="y") == "echo: hello"
    second = await served.ask([output(calls_of(first)[0], "sunny")], tools=TOOLS, conversation="x")
    assert second.status_code == 200, second.text
    assert served.rows("select text from messages where role = 'tool'") == [("sunny",)]
    assert [prompt.count("sunny") for prompt in served.prompts() if "sunny" in prompt] == [1]


async def test_tools_that_change_between_turns_are_honoured(served: Served) -> None:
    assert await served.say("!tools", tools=TOOLS[:1], conversation="x") == "get_weather"
    assert await served.say("!tools", tools=TOOLS, conversation="x") == "get_time\nget_weather"
    nothing = await served.ask("!tools", tools=TOOLS, tool_choice="none", conversation="x")
    assert nothing.json()["error"]["code"] == "empty_answer"
    assert await served.say("!recall", conversation="x") == "!tools\n!tools\n!tools"


async def test_tools_that_come_later_get_a_fresh_seat_with_the_history(served: Served) -> None:
    await served.say("apple", conversation="x")
    assert await served.say("!tools", tools=TOOLS[:1], conversation="x") == "get_weather"
    assert await served.say("!recall", tools=TOOLS[:1], conversation="x") == "apple\n!tools"
    assert served.seats() == 2


async def test_two_sessions_never_get_each_others_calls(served: Served) -> None:
    firsts = await asyncio.gather(
        *(served.ask(f'!call get_weather {{"of": "{name}"}}', tools=TOOLS, conversation=name) for name in "abcdef")
    )
    for name, first in zip("abcdef", firsts, strict=True):
        (call,) = calls_of(first.json())
        assert json.loads(call["arguments"]) == {"of": name}
    seconds = await asyncio.gather(
        *(
            served.ask([output(calls_of(first.json())[0], f"for {name}")], conversation=name)
            for name, first in zip("abcdef", firsts, strict=True)
        )
    )
    assert [text_of(second.json()) for second in seconds] == [f"for {name}" for name in "abcdef"]


async def test_w01b_another_owners_call_cannot_be_answered(tmp_path: Path) -> None:
    keys = [{"name": name, "sha256": digest} for name, digest in KEYS.items()]
    async with serving(tmp_path / "data", auth__keys=keys) as served:
        ours, theirs = {"authorization": "Bearer one"}, {"authorization": "Bearer two"}
        body = {"model": "demo", "input": CALL, "tools": TOOLS}
        first = (await served.http.post("/v1/responses", json=body, headers=ours)).json()
        answer = {"model": "demo", "input": [output(calls_of(first)[0], "stolen")]}
        refused = await served.http.post("/v1/responses", json=answer, headers=theirs)
        assert refused.status_code == 400
        assert (await served.http.get(f"/v1/responses/{first['id']}", headers=theirs)).status_code == 404
        good = await served.http.post(
            "/v1/responses", json={"model": "demo", "input": [output(calls_of(first)[0], "mine")]}, headers=ours
        )
        assert text_of(good.json()) == "mine"


KEYS = {
    "one": "7692c3ad3540bb803c020b3aee66cd8887123234ea0c6e7143c0add73ff431ed",
    "two": "3fc4ccfe745870e2c0d99f71f30ff0656c8dedd41cc1d7d3d376b0dbe685e2f3",
}
"""The digests of those very words."""


async def test_a_function_without_a_description_is_given_one(served: Served) -> None:
    """Some agents hide a tool from their model that says nothing about itself."""
    await served.say("!tools", tools=TOOLS[:1], conversation="x")
    session = served.gateway.sessions.find(served.rows("select id from sessions")[0][0])
    assert session is not None
    assert session.seat_manager.seat is not None
    (tool,) = session.seat_manager.seat.tools
    assert tool["description"] == "The client's function get_weather."


async def test_calls_that_no_client_ever_answered_are_closed_also_those_of_an_earlier_life(tmp_path: Path) -> None:
    wall = Wall()
    async with serving(tmp_path / "data", wall=wall) as served:
        await served.ask(CALL, tools=TOOLS, conversation="x")
        states = "select state from parked_calls"
        await served.gateway.expiry.check()
        assert served.rows(states) == [("waiting",)]
    async with serving(tmp_path / "data", wall=wall) as served:
        assert served.rows(states) == [("waiting",)]
        wall.now += served.gateway.sessions.deps.settings.client_tool_deadline + 1
        await served.gateway.expiry.check()
        assert served.rows(states) == [("expired",)]
        assert await served.say("go on", conversation="x") == "echo: go on"
