"""The breakdown of each turn against what its own agent measured: many at once, and none gets another's numbers."""

import asyncio
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from ostler.pool.demo.launch import command_line
from tests.support import varied_agent
from tests.support.agent_clock import AgentTurn, agent_turns
from tests.support.breakdowns import Written, breakdowns, lateness
from tests.support.served import Served, serving

EXACT = 15.0
"""Milliseconds; on top of it only what the loop of this very process was late."""
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


def differences(written: Written, agent: AgentTurn) -> dict[str, float]:
    """Ours minus the agent's, in milliseconds."""
    spans = written.spans
    claimed = written.at - (written.total - spans["store"]) / 1000
    return {
        "spawn": spans["spawn"] - max(0.0, agent.up - claimed) * 1000,
        "session_new": spans["session_new"] - (agent.opened - agent.asked_for) * 1000,
        "first_tool": spans["first_tool"] - agent.first_tool * 1000,
        "generation": spans["generation"] - agent.generation * 1000,
        "sum": written.sum - written.total,
    }


@pytest.mark.long
async def test_g10_fifty_turns_at_once_each_find_their_own_delays_in_their_breakdown(tmp_path: Path) -> None:
    async with serving(tmp_path / "data", pool__max_processes=PLACES + 1, **VARIED) as served:
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
    allowed = EXACT + late.most * 1000
    found = {n: differences(written.of(ids[n]), agents[f"turn {n}"]) for n in range(TURNS)}
    wrong = {n: each for n, each in found.items() if any(abs(value) > allowed for value in each.values())}
    assert wrong == {}, f"more than {allowed:.1f} ms beside the agent's own clock"
    injected_first_tool = [written.of(turn).spans["first_tool"] >= 20 * n for n, turn in enumerate(ids)]
    assert all(injected_first_tool)
    assert all(written.of(turn).sum <= written.of(turn).total for turn in ids)
    assert len({agent.pid for agent in agents.values()}) == PLACES
