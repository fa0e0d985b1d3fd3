"""The tool relay of a seat that a session has dies: the next turn has its tools, and says once what happened."""

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from ostler.bridge.calls import CallResult, ToolCall
from ostler.bridge.offer import Offer
from ostler.bridge.session_binding import RELAY, SessionBinding
from ostler.gateway.model.errors import SeatLost
from ostler.gateway.turns.turn import Turn
from tests.gateway.turns.test_client_tools import CALL, TOOLS, calls_of, output
from tests.support.scrape import scrape
from tests.support.served import SESSION, Served, serving, text_of
from tests.support.waiting import eventually, soon

SMALL = str(Path(__file__).parents[2] / "support" / "small_server.py")
INFO = "!call session_info {}"


def kill_relays(served: Served) -> None:
    """Those of all seats, also of the parked ones."""
    for agent in served.gateway.pool.snapshot().processes:
        for child in psutil.Process(agent.pid).children(recursive=True):
            if str(RELAY) in child.cmdline():
                os.kill(child.pid, signal.SIGKILL)


def notices(response: dict[str, Any]) -> list[str]:
    kinds = [item["activity"]["kind"] for item in response["output"] if "activity" in item]
    return [kind for kind in kinds if kind != "tool_call"]


async def test_n16_a_relay_killed_between_turns_costs_no_turn_its_tools(tmp_path: Path) -> None:
    async with serving(tmp_path / "data", tools__own=["*"]) as served:
        first = await served.ask(INFO, conversation="x")
        (seat,) = {frame["params"]["sessionId"] for frame in served.frames("session/prompt")}
        kill_relays(served)
        await eventually(lambda: sum(served.gateway.bridge.stats.lost.values()), "the bridge misses the relay")
        second, third = [(await served.ask(INFO, conversation="x")).json() for _ in range(2)]
        for answer in (second, third):
            assert first.headers[SESSION] in text_of(answer)
        assert (notices(first.json()), notices(second), notices(third)) == ([], ["tools_lost"], [])
        assert (await served.say("!recall", conversation="x")).count(INFO) == 3
        assert seat in {frame["params"]["sessionId"] for frame in served.frames("session/close")}
        told = await scrape(served)
    assert told.total("ostler_bridge_tools_lost_total", reason="ended") >= 1


async def test_n16_a_call_that_runs_when_the_relay_dies_is_an_error_and_the_turn_goes_on(tmp_path: Path) -> None:
    servers = {"small": {"command": [sys.executable, "-S", SMALL]}}
    async with serving(tmp_path / "data", tools__mcp=servers) as served:
        stats = served.gateway.bridge.stats
        asked = asyncio.create_task(served.ask("!call small_hold {}\nwent on", conversation="x"))
        await eventually(lambda: stats.calls_running, "the call runs")
        kill_relays(served)
        first = (await soon(asked, "the end of the turn")).json()
        assert first["status"] == "completed"
        assert text_of(first).startswith("error: ")
        assert text_of(first).endswith("went on")
        await eventually(lambda: not stats.calls_running, "the bridge ends the call")
        second = (await served.ask("!call small_whoami {}", conversation="x")).json()
        assert text_of(second).isdigit()
        assert notices(second) == ["tools_lost"]


async def test_n16_the_result_of_a_function_whose_relay_died_still_reaches_the_agent(tmp_path: Path) -> None:
    async with serving(tmp_path / "data") as served:
        first = await served.ask(CALL, tools=TOOLS, conversation="x")
        (call,) = calls_of(first.json())
        kill_relays(served)
        session = served.gateway.sessions.find(first.headers[SESSION])
        assert session is not None
        await eventually(lambda: session.turn is None or finished(session.turn), "the agent's end of the turn")
        second = (await served.ask([output(call, "sunny")], tools=TOOLS, conversation="x")).json()
        assert second["status"] == "completed"
        assert "sunny" in served.prompts()[-1]
        third = await served.ask(CALL, tools=TOOLS, conversation="x")
        (call,) = calls_of(third.json())
        assert [*notices(second), *notices(third.json())] == ["tools_lost"]
        fourth = await served.ask([output(call, "rainy")], tools=TOOLS, conversation="x")
        assert "rainy" in text_of(fourth.json())
        assert notices(fourth.json()) == []


def finished(turn: Turn) -> bool:
    return turn.agent is not None and turn.agent.finished is not None


async def test_n16_a_streamed_turn_and_its_stored_response_say_it_too(tmp_path: Path) -> None:
    async with serving(tmp_path / "data", tools__own=["*"]) as served:
        await served.say(INFO, conversation="x")
        kill_relays(served)
        await eventually(lambda: sum(served.gateway.bridge.stats.lost.values()), "the bridge misses the relay")
        events = await served.stream(INFO, conversation="x")
        response = events[-1]["response"]
        assert notices(response) == ["tools_lost"]
        kept = (await served.http.get(f"/v1/responses/{response['id']}")).json()
        assert notices(kept) == ["tools_lost"]


async def test_n16_tools_that_are_revoked_before_their_agent_is_missed_cost_the_seat_and_no_turn(
    tmp_path: Path,
) -> None:
    async with serving(tmp_path / "data", tools__own=["*"]) as served:
        first = await served.ask(INFO, conversation="x")
        session = served.gateway.sessions.find(first.headers[SESSION])
        assert session is not None
        seat = session.seat_manager.seat
        assert seat is not None
        assert isinstance(seat.lease.ticket, SessionBinding)
        seat.lease.ticket.revoke()
        assert (seat.lease.lost, seat.lease.move) == (None, None)
        with pytest.raises(SeatLost):
            seat.offer(Offer(seat.tools, refuse), None)


async def refuse(call: ToolCall) -> CallResult:
    return CallResult.error(f"{call.name} is not to be called")
