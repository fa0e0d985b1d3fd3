"""Turns that take too long, and what does not count as long; the same turns with and without the pool."""

from pathlib import Path
from typing import Any

from tests.support.openai_oracle import judge_response
from tests.support.served import SESSION, serving, text_of
from tests.support.waiting import eventually

TOOL = {"type": "function", "name": "get_weather", "parameters": {"type": "object", "properties": {}}}


async def test_a_silent_turn_is_failed_and_its_session_stays_usable(tmp_path: Path) -> None:
    async with serving(tmp_path / "data", gateway__turn_inactivity=0.4) as served:
        silent = await served.ask("said\n!sleep 60", conversation="x")
        assert (silent.status_code, silent.json()["status"]) == (200, "failed")
        assert "did not answer" in silent.json()["error"]["message"]
        judge_response(silent.json())
        assert "said" in await served.say("!recall", conversation="x")


async def test_waiting_for_the_client_is_not_silence(tmp_path: Path) -> None:
    async with serving(tmp_path / "data", gateway__turn_inactivity=0.4) as served:
        first = (await served.ask("!call get_weather {}", tools=[TOOL])).json()
        (call,) = first["output"]
        signs = served.gateway.sessions.find(served.rows("select id from sessions")[0][0])
        assert signs is not None
        turn = signs.turn
        assert turn is not None
        assert turn.agent is not None
        before = turn.agent.count
        await eventually(lambda: turn.agent is not None and turn.agent.count > before + 16, "two limits have passed")
        output = {"type": "function_call_output", "call_id": call["call_id"], "output": "sunny"}
        second = await served.ask([output], previous_response_id=first["id"])
        assert text_of(second.json()) == "sunny"


async def test_a_wall_clock_ends_a_busy_turn_as_incomplete(tmp_path: Path) -> None:
    from openai import AsyncOpenAI

    async with serving(tmp_path / "data", gateway__turn_limit=0.3) as served:
        ended = (await served.ask("said\n!sleep 60", conversation="x")).json()
        assert (ended["status"], ended["incomplete_details"]) == (
            "incomplete",
            {"reason": "max_output_tokens", "cause": "time_limit"},
        )
        judge_response(ended)
        async with AsyncOpenAI(base_url=f"{served.base}/v1", api_key="x", _strict_response_validation=True) as client:
            read = await client.responses.retrieve(ended["id"])
            assert read.incomplete_details is not None
            assert read.incomplete_details.reason == "max_output_tokens"
        assert "said" in await served.say("!recall", conversation="x")


async def test_an_answer_without_end_is_ended(tmp_path: Path) -> None:
    async with serving(tmp_path / "data", gateway__answer_room=50_000) as served:
        for words in ("!stream 9000000", "!think so\n" * 400 + "!sleep 60", "!bigline 1\n!sleep 60"):
            ended = (await served.ask(words, conversation="x")).json()
            assert (ended["status"], ended["incomplete_details"]["reason"]) == ("incomplete", "max_output_tokens")
            judge_response(ended)
            assert len(text_of(ended)) < 50_000
        assert await served.say("hello", conversation="x") == "echo: hello"


async def script(folder: Path, **settings: Any) -> tuple[list[str], int, int, list[tuple[Any, ...]]]:
    """30 turns over 5 sessions: the answers, the sessions, the processes, the transcripts."""
    answers, sessions = [], set()
    async with serving(folder, **settings) as served:
        for number in range(30):
            ask = f"word{number}" if number % 3 else f"!recall\nword{number}"
            answer = await served.ask(ask, conversation=f"c{number % 5}")
            sessions.add(answer.headers[SESSION])
            answers.append(text_of(answer.json()))
        rows = served.rows("select role, text from messages order by id")
        return answers, len(sessions), served.starts(), rows


async def test_g05_pool_on_and_off_differ_in_processes_only(tmp_path: Path) -> None:
    on = await script(tmp_path / "on")
    off = await script(tmp_path / "off", pool__enabled=False)
    assert on[0] == off[0]
    assert on[3] == off[3]
    assert (on[1], off[1]) == (5, 5)
    assert (on[2], off[2]) == (1, 5)
