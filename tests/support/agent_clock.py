"""What the demo agents say of their own time, read from the record that they keep: the yardstick for ours.

Rules: the record's times are of the machine's monotonic clock, which all processes share.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class AgentTurn:
    """One prompt, as the agent that answered it saw it. Seconds on the shared clock."""

    pid: int
    up: float
    """The handshake was answered."""
    asked_for: float
    """`session/new` came in."""
    opened: float
    prompted: float
    tool: float | None
    """The first tool call was told."""
    answered: float

    @property
    def first_tool(self) -> float:
        return 0.0 if self.tool is None else self.tool - self.prompted

    @property
    def generation(self) -> float:
        return self.answered - (self.prompted if self.tool is None else self.tool)


def agent_turns(record: Path) -> Mapping[str, AgentTurn]:
    """Every answered prompt by the first line of its text."""
    lines = [json.loads(line) for line in record.read_text().splitlines()]
    found = {}
    for line in lines:
        frame = line.get("frame", {})
        if line["event"] == "in" and frame.get("method") == "session/prompt":
            text = frame["params"]["prompt"][-1]["text"]
            found[text.partition("\n")[0]] = turn_of(lines, line)
    return found


def turn_of(lines: list[dict[str, Any]], prompt: dict[str, Any]) -> AgentTurn:
    """The frames that belong to one prompt."""
    pid, session = prompt["pid"], prompt["frame"]["params"]["sessionId"]
    mine = [line for line in lines if line["pid"] == pid and "frame" in line]
    out = [line for line in mine if line["event"] == "out"]
    made = next(line for line in out if session_of(line) == session)
    asked_for = next(line for line in mine if line["event"] == "in" and line["frame"].get("id") == made["frame"]["id"])
    hello = next(line for line in mine if line["frame"].get("method") == "initialize")
    up = next(line for line in out if line["frame"].get("id") == hello["frame"]["id"])
    end = next(line for line in out if is_answer(line, prompt["frame"]["id"]))
    tools = [line["at"] for line in out if is_tool_call(line, session) and prompt["at"] <= line["at"] <= end["at"]]
    return AgentTurn(pid, up["at"], asked_for["at"], made["at"], prompt["at"], min(tools) if tools else None, end["at"])


def session_of(line: dict[str, Any]) -> object:
    result = line["frame"].get("result")
    return result.get("sessionId") if isinstance(result, dict) else None


def is_answer(line: dict[str, Any], number: object) -> bool:
    return line["frame"].get("id") == number and "stopReason" in (line["frame"].get("result") or {})


def is_tool_call(line: dict[str, Any], session: str) -> bool:
    params = line["frame"].get("params") or {}
    return params.get("sessionId") == session and params.get("update", {}).get("sessionUpdate") == "tool_call"
