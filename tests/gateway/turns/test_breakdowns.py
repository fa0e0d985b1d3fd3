"""The breakdown of each turn against what its own agent measured: many at once, and none gets another's numbers."""

import asyncio
import statistics
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from ostler.demo.launch import command_line
from tests.support import varied_agent
from tests.support.agent_clock import AgentTurn, agent_turns
from tests.support.breakdowns import Moments, Written, breakdowns, lateness
from tests.support.served import Served, serving
from tests.support.waiting import eventually

EXACT = 15.0
"""Milliseconds; on top of it only what the loop of this very process, and the agents, were late themselves: a calm
machine adds two or three."""
ROUNDED = 0.01
"""Milliseconds that the spans of a record may lose together, each to its microseconds."""
TURNS, PLACES = 50, 5
COMMAND = [sys.executable, "-I", "-S", "-E", str(varied_agent.__file__), *command_line([])]
VARIED: Mapping[str, Any] = {"providers__demo__command": COMMAND, "auth__concurrency": 200}


def place(folder: Path, name: str, *flags: str) -> str:
    """A directory whose agent has these flags."""
    path = folder / "places" / name
    path.mkdir(parents=True)
    (path / "flags").write_text(" ".join(flags))
    return str(path)


async def ask(served: Served, name: str, orders: str, cwd: str, **fields: Any) -> str:
    """Run a turn; the id of its response."""
    answer = await served.ask(f"{name}\n{orders}", metadata={"cwd": cwd}, **fields)
    assert answer.status_code == 200, answer.text
    turn_id: str = answer.json()["id"]
    return turn_id


def differences(written: Written, agent: AgentTurn, claimed: float) -> dict[str, float]:
    """Ours minus the agent's, in milliseconds."""
    spans = written.spans
    return {
        "spawn": spans["spawn"] - max(0.0, agent.up - claimed) * 1000,
        "session_new": spans["session_new"] - (agent.opened - agent.asked_for) * 1000,
        "first_tool": spans["first_tool"] - agent.first_tool * 1000,
        "generation": spans["generation"] - agent.generation * 1000,
    }


def agents_late(agent: AgentTurn, n: int) -> float:
    """By how much an agent overslept, at worst, when it was told to take its time; milliseconds."""
    told = (0.02 * n, 1 - 0.02 * n, (2 * (n % PLACES) + 1) / 10)
    took = (agent.first_tool, agent.generation, agent.opened - agent.asked_for)
    return max(real - wanted for real, wanted in zip(took, told, strict=True)) * 1000


@pytest.mark.long
async def test_g10_fifty_turns_at_once_each_find_their_own_delays_in_their_breakdown(tmp_path: Path) -> None:
    moments = Moments()
    async with serving(tmp_path / "data", pool__max_processes=PLACES + 1, gauges=moments.make, **VARIED) as served:
        places = [
            place(tmp_path, str(n), f"--delay-initialize 0.{n + 1}", f"--slow-session-new 0.{2 * n + 1}")
            for n in range(PLACES)
        ]
        with breakdowns() as written, lateness() as late:
            turns = [
                ask(served, f"turn {n}", f"!sleep {0.02 * n}\n!call nothing\n!sleep {1 - 0.02 * n}", places[n % PLACES])
                for n in range(TURNS)
            ]
            ids = await asyncio.gather(*turns)
    agents = agent_turns(served.record)
    allowed = EXACT + late.most * 1000 + max(agents_late(agents[f"turn {n}"], n) for n in range(TURNS))
    found = {n: differences(written.of(turn), agents[f"turn {n}"], moments.claimed(turn)) for n, turn in enumerate(ids)}
    # Numbers of another turn would fall short of what this turn's own agent did; no busy machine makes them do so.
    wrong = {n: each for n, each in found.items() if any(value < -allowed for value in each.values())}
    assert wrong == {}, f"more than {allowed:.1f} ms less than by the agent's own clock"
    beyond = {name: statistics.median(each[name] for each in found.values()) for name in found[0]}
    assert max(beyond.values()) <= allowed, f"{beyond}: more than {allowed:.1f} ms beyond the agents' own clocks"
    injected_first_tool = [written.of(turn).spans["first_tool"] >= 20 * n for n, turn in enumerate(ids)]
    assert all(injected_first_tool)
    unsaid = {n: written.of(turn).total - written.of(turn).sum for n, turn in enumerate(ids)}
    assert all(missing >= 0 for missing in unsaid.values())
    known = {n: moments.between(turn) * 1000 for n, turn in enumerate(ids)}
    assert {n: (unsaid[n], known[n]) for n in unsaid if abs(unsaid[n] - known[n]) > ROUNDED} == {}
    assert len({agent.pid for agent in agents.values()}) == PLACES


@pytest.mark.long
async def test_g10_a_slow_and_a_quick_session_never_swap_their_times(tmp_path: Path) -> None:
    """100 pairs, ten at a time. Tools that differ each time, so that no seat can be there before it is asked for."""
    moments = Moments()
    async with serving(tmp_path / "data", gateway__seats_max=8, gauges=moments.make, **VARIED) as served:
        slow, quick = place(tmp_path, "slow", "--slow-session-new 0.5"), place(tmp_path, "quick")

        async def pair(number: int) -> tuple[str, str]:
            tools = [{"type": "function", "name": f"f{number}", "parameters": {"type": "object"}}]
            asked = (ask(served, f"{name} {number}", "", cwd, tools=tools) for name, cwd in (("a", slow), ("b", quick)))
            one, other = await asyncio.gather(*asked)
            return one, other

        with breakdowns() as written, lateness() as late:
            pairs = [
                found
                for first in range(0, 100, 10)
                for found in await asyncio.gather(*map(pair, range(first, first + 10)))
            ]
    agents, allowed = agent_turns(served.record), 250 + late.most * 1000
    asked = {f"{name} {n}": turn for n, both in enumerate(pairs) for name, turn in zip("ab", both, strict=True)}
    assert len(asked) == 200
    found = {
        name: differences(written.of(turn), agents[name], moments.claimed(turn))["session_new"]
        for name, turn in asked.items()
    }
    # Each record covers what its own agent did: one that was swapped for a quicker one would fall short of it.
    assert {name: value for name, value in found.items() if value < -EXACT} == {}
    assert all(written.of(one).spans["session_new"] >= 500 for one, _ in pairs)
    # And no more than that: half of what sets the two apart, for the half of them that a busy machine lets off lightly.
    assert statistics.median(found.values()) <= allowed


async def test_g07_a_warm_seat_costs_no_spawn_and_without_the_pool_every_process_does(tmp_path: Path) -> None:
    boot = ("--boot-delay", "0.4")
    async with serving(tmp_path / "warm", *boot, pool__prewarm=True) as served:
        await eventually(lambda: served.gateway.pool.snapshot().core.census.parked > 0, "a seat is parked")
        with breakdowns() as written:
            ids = [(await served.ask("hi", conversation="x", model="demo/demo")).json()["id"] for _ in range(2)]
            release(served)
            ids.append((await served.ask("hi", conversation="x", model="demo/demo")).json()["id"])
    assert [written.of(turn).spans["spawn"] <= 5 for turn in ids] == [True] * 3
    assert [written.of(turn).warmth for turn in ids[:2]] == ["parked", "own"]
    async with serving(tmp_path / "off", *boot, pool__enabled=False) as served:
        with breakdowns() as written:
            first = (await served.ask("hi", conversation="x")).json()["id"]
            own = (await served.ask("hi", conversation="x")).json()["id"]
            release(served)
            again = (await served.ask("hi", conversation="x")).json()["id"]
    assert [written.of(turn).spans["spawn"] >= 400 for turn in (first, own, again)] == [True, False, True]
    assert {written.of(turn).transport for turn in (first, own, again)} == {"agent"}


def release(served: Served) -> None:
    """Every session gives its seat back."""
    for (session,) in served.rows("select id from sessions"):
        found = served.gateway.sessions.find(session)
        if found is not None:
            found.release_seat()


async def test_g08_the_sum_is_not_above_the_wall_time_and_no_tool_is_no_first_tool(served: Served) -> None:
    with breakdowns() as written:
        began = time.monotonic()
        plain = (await served.ask("hi")).json()["id"]
        wall = (time.monotonic() - began) * 1000
        tool = (await served.ask("!sleep 0.3\n!call nothing {}")).json()["id"]
    assert written.of(plain).spans["first_tool"] == 0
    assert written.of(plain).sum <= written.of(plain).total <= wall
    assert written.of(tool).spans["first_tool"] >= 300
