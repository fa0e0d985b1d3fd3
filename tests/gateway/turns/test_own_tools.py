"""Tools that agents get besides their client's functions: ours, and those of configured servers."""

import asyncio
import re
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.gateway.turns.test_client_tools import CALL, TOOLS, calls_of, output
from tests.support.served import SESSION, Served, serving, text_of
from tests.support.waiting import eventually

SMALL = str(Path(__file__).parents[2] / "support" / "small_server.py")
SERVER = {"command": [sys.executable, "-S", SMALL]}
SESSION_ID = re.compile(r'"session_id":\s*"(\w+)"')
INFO = "!call session_info {}"


def running(pid: str) -> bool:
    return psutil.pid_exists(int(pid)) and psutil.Process(int(pid)).status() != psutil.STATUS_ZOMBIE


def activities(response: dict[str, Any]) -> list[dict[str, Any]]:
    return [item["activity"] for item in response["output"] if "activity" in item]


async def test_rb7_b23_own_tools_run_here_and_know_whose_session_calls(tmp_path: Path) -> None:
    async with serving(tmp_path / "data", tools__own=["*"]) as served:
        names = [f"c{number}" for number in range(6)]
        answers = await asyncio.gather(*(served.ask("\n".join([INFO] * 5), conversation=name) for name in names))
        for answer in answers:
            found = SESSION_ID.findall(text_of(answer.json()))
            assert found == [answer.headers[SESSION]] * 5
            told = activities(answer.json())
            assert [(each["kind"], each["title"], each["status"]) for each in told] == [
                ("tool_call", "session_info", "completed")
            ] * 5
            assert calls_of(answer.json()) == []
        assert served.starts() == 1


async def test_g04_a_name_that_no_tool_of_ours_has_is_told_of_in_the_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async with serving(tmp_path / "data", tools__own=["session_*", "sesion_info"]) as served:
        assert await served.say("!tools") == "session_info"
    (told,) = [record.getMessage() for record in caplog.records if "tools.own" in record.getMessage()]
    assert "'sesion_info'" in told
    assert "session_info" in told


async def test_w02_a_call_whose_agent_states_another_session_is_refused_whatever_its_token(tmp_path: Path) -> None:
    async with serving(tmp_path / "data", "--claim-session", "somebody-else", tools__own=["*"]) as served:
        answer = await served.ask(INFO)
        said = text_of(answer.json())
        assert said.startswith("error: ")
        assert SESSION_ID.findall(said) == []


async def test_functions_of_the_client_and_tools_of_ours_are_merged_and_routed(tmp_path: Path) -> None:
    settings = {"tools__own": ["session_info"], "tools__mcp": {"small": {**SERVER, "allow": ["echo", "whoami"]}}}
    async with serving(tmp_path / "data", **settings) as served:
        listed = await served.say("!tools", tools=TOOLS, conversation="x")
        assert listed.split() == ["get_time", "get_weather", "session_info", "small_echo", "small_whoami"]
        first = await served.ask(f'{INFO}\n!call small_echo {{"text": "hi"}}\n{CALL}', tools=TOOLS, conversation="x")
        said = text_of(first.json()).strip()
        assert SESSION_ID.findall(said) == [first.headers[SESSION]]
        assert said.endswith("\nhi")
        (call,) = calls_of(first.json())
        second = await served.ask([output(call, "sunny")], tools=TOOLS, conversation="x")
        assert text_of(second.json()).strip() == "sunny"


async def test_a_function_of_the_client_hides_a_tool_of_ours_with_its_name(tmp_path: Path) -> None:
    async with serving(tmp_path / "data", tools__own=["*"]) as served:
        mine = {"type": "function", "name": "session_info", "parameters": {"type": "object", "properties": {}}}
        first = await served.ask(INFO, tools=[mine], conversation="x")
        assert [call["name"] for call in calls_of(first.json())] == ["session_info"]


async def test_servers_are_shared_or_a_sessions_own(tmp_path: Path) -> None:
    servers = {"one": SERVER, "own": {**SERVER, "per_session": True}}
    async with serving(tmp_path / "data", tools__mcp=servers, gateway__seats_max=1) as served:
        ask = "!call one_whoami {}\n!call own_whoami {}"
        said = [(await served.say(ask, conversation=name)).split() for name in "ab"]
        first, second = said
        assert first[0] == second[0]
        assert first[1] != second[1]
        # The seat of `a` was given back for that of `b`, and with it all that was held for the session.
        await eventually(lambda: not running(first[1]), "the server of the session that was let go ends")
        assert running(second[1])
    await eventually(lambda: not running(first[0]), "the shared server ends with the gateway")


async def test_a_server_is_shown_to_the_providers_and_owners_it_is_for(tmp_path: Path) -> None:
    servers = {"theirs": {**SERVER, "sessions": ["bob:*"]}, "gem": {**SERVER, "providers": ["gemini"]}}
    async with serving(tmp_path / "data", tools__mcp=servers, tools__own=["session_info"]) as served:
        assert await served.say("!tools") == "session_info"


async def test_a_server_that_is_away_costs_no_turn(tmp_path: Path) -> None:
    servers = {"gone": {"command": [sys.executable, SMALL, "--die"]}}
    async with serving(tmp_path / "data", tools__mcp=servers) as served:
        assert await served.say("hello") == "echo: hello"


async def test_f19_tools_that_change_are_told_to_that_session_only(served: Served) -> None:
    assert await served.say("!tools", tools=TOOLS[:1], conversation="a") == "get_weather"
    assert await served.say("!tools", tools=TOOLS[:1], conversation="b") == "get_weather"
    assert await served.say("!tools", tools=TOOLS, conversation="a") == "get_time\nget_weather"
    assert await served.say("!tools", tools=TOOLS[:1], conversation="b") == "get_weather"
    assert await served.say("!recall", tools=TOOLS, conversation="a") == "!tools\n!tools"
    # An agent that takes such news at once keeps its session: nothing was replayed.
    assert served.seats() == 2
    assert all("!tools" not in prompt or prompt == "!tools" for prompt in served.prompts())


async def test_f19_an_agent_that_does_not_ask_for_changed_tools_gets_a_fresh_seat(tmp_path: Path) -> None:
    async with serving(tmp_path / "data", "--no-list-changed", "--no-load") as served:
        assert await served.say("!tools", tools=TOOLS[:1], conversation="a") == "get_weather"
        assert await served.say("!tools", tools=TOOLS, conversation="a") == "get_time\nget_weather"
        assert await served.say("!recall", tools=TOOLS, conversation="a") == "!tools\n!tools"
        assert served.seats() == 2


async def test_f19_a_servers_new_tool_is_there_in_the_next_turn(tmp_path: Path) -> None:
    async with serving(tmp_path / "data", tools__mcp={"small": SERVER}) as served:
        await served.say("hello", conversation="other")
        assert "small_more8" not in await served.say("!tools", conversation="x")
        assert await served.say("!call small_grow {}", conversation="x") == "grown"

        async def grown() -> bool:
            return "small_more8" in await served.say("!tools", conversation="x")

        while not await grown():
            continue
        assert served.seats() == 2


async def test_a_slow_tool_of_ours_is_not_silence(tmp_path: Path) -> None:
    async with serving(
        tmp_path / "data", tools__mcp={"small": {**SERVER, "timeout": 1.2}}, gateway__turn_inactivity=0.4
    ) as served:
        answer = await served.ask("!call small_hold {}\nafter")
        assert answer.json()["status"] == "completed", answer.text
        assert "echo: after" in text_of(answer.json())


async def test_agents_reach_tools_over_http_where_it_is_configured(tmp_path: Path) -> None:
    async with serving(
        tmp_path / "data", "--mcp-http", tools__own=["*"], providers__demo__tool_channel="http"
    ) as served:
        answer = await served.ask(INFO, conversation="x")
        assert SESSION_ID.findall(text_of(answer.json())) == [answer.headers[SESSION]]
        (server,) = served.frames("session/new")[-1]["params"]["mcpServers"]
        assert (server["type"], server["url"][:17]) == ("http", "http://127.0.0.1:")


async def test_a_session_lets_go_of_its_tools_although_its_crew_is_gone(tmp_path: Path) -> None:
    """As at a forced end: who made the tool servers ends them then, and nothing is left to raise."""
    async with serving(tmp_path / "data", tools__own=["*"]) as served:
        answer = await served.ask("hello")
        session = served.gateway.sessions.find(answer.headers[SESSION])
        assert session is not None
        await served.gateway.sessions.deps.tasks.disband()
        session.let_go()
        assert session.seat_manager.seat is None
