"""What the fake model answers. Pure: a conversation in, pieces of an answer out.

The language is the demo agent's, so that one prompt means the same to every agent of the contract suite. One order
per line of the user's last text:
- `!recall` answers with the earlier user texts of the conversation, one per line;
- `!tools` answers with the names of the tools offered, sorted, one per line;
- `!call NAME {json}` calls the tool of that name, or one whose qualified name ends in it, and answers with its result;
- `!stream N` sends `t0 ` .. `tN-1 ` as N pieces; `!sleep S` waits; `!think TEXT` is taken and not answered;
- `!limit` ends the answer as if it were as long as it may be;
- anything else is echoed.

Rules:
- A model has no memory: how far an answer has come is read from the tool results that follow the user's text.
- Agents put furniture beside what the user said, always in angle brackets; it is not the user's text.
"""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from ostler.wire.json import JsonObject

ORDER = re.compile(r"!(recall|tools|call|stream|sleep|think|limit)(?:\s+(.*))?$")
CALL = re.compile(r"!call\s+(\S+)\s*(.*)$")


@dataclass(frozen=True, slots=True)
class User:
    """One text of the user."""

    text: str


@dataclass(frozen=True, slots=True)
class Model:
    """Something the model said or called."""


@dataclass(frozen=True, slots=True)
class Result:
    """What a tool answered."""

    text: str


Said: TypeAlias = User | Model | Result


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool the agent offers. `space` is set where the API keeps the server's name apart."""

    name: str
    space: str | None = None

    @property
    def qualified(self) -> str:
        """The whole name, as `!tools` shows it."""
        return self.name if self.space is None else f"{self.space}.{self.name}"


@dataclass(frozen=True, slots=True)
class Request:
    """What an API call asks, whatever its dialect."""

    model: str
    said: Sequence[Said]
    tools: Sequence[Tool]
    stream: bool


@dataclass(frozen=True, slots=True)
class Say:
    """One piece of text."""

    text: str


@dataclass(frozen=True, slots=True)
class Pause:
    """Nothing for some seconds."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Call:
    """A tool call; the answer ends with it."""

    tool: Tool
    arguments: JsonObject


Piece: TypeAlias = Say | Pause | Call


def is_furniture(text: str) -> bool:
    """Whether an agent, and no user, wrote this."""
    return text.lstrip().startswith("<") or not text.strip()


def prompt_at(said: Sequence[Said]) -> int | None:
    """Where the user's last text stands."""
    for index in range(len(said) - 1, -1, -1):
        item = said[index]
        if isinstance(item, User) and not is_furniture(item.text):
            return index
    return None


def prompt_of(request: Request) -> str:
    """The user's last text, or nothing."""
    at = prompt_at(request.said)
    item = None if at is None else request.said[at]
    return item.text if isinstance(item, User) else ""


def is_limited(request: Request) -> bool:
    """Whether the answer ends because it is as long as it may be."""
    return "!limit" in prompt_of(request).split("\n")


def answer(request: Request) -> Iterator[Piece]:
    """The pieces of the answer from here to its end or to the next tool call."""
    at = prompt_at(request.said)
    if at is None:
        yield Say("nothing was asked")
        return
    said = False
    for line, result in orders(request, at):
        fresh = True
        for piece in [Say(result)] if result is not None else obey(line, request, at):
            if isinstance(piece, Say):
                yield Say("\n" + piece.text) if said and fresh else piece
                fresh, said = False, True
            else:
                yield piece
            if isinstance(piece, Call):
                return


def orders(request: Request, at: int) -> Iterator[tuple[str, str | None]]:
    """The lines still to be obeyed; the first with its result, when it is a call that came back."""
    results = [item.text for item in request.said[at + 1 :] if isinstance(item, Result)]
    lines = [line.strip() for line in prompt_of(request).splitlines() if line.strip()]
    calls = [index for index, line in enumerate(lines) if called(line, request.tools) is not None]
    back = calls[min(len(results), len(calls)) - 1] if results and calls else None
    for index, line in enumerate(lines[back or 0 :], back or 0):
        yield line, results[-1] if index == back else None


def obey(line: str, request: Request, at: int) -> Iterator[Piece]:
    """The pieces of one order."""
    found = ORDER.match(line)
    verb, rest = (found.group(1), found.group(2) or "") if found else ("", "")
    match verb:
        case "recall":
            yield Say("\n".join(item.text for item in request.said[:at] if isinstance(item, User)) or "(nothing)")
        case "tools":
            yield Say("\n".join(sorted(tool.qualified for tool in request.tools)))
        case "call":
            yield called(line, request.tools) or Say(f"error: no tool {rest.partition(' ')[0]}")
        case "stream":
            yield from (Say(f"t{index} ") for index in range(int(rest)))
        case "sleep":
            yield Pause(float(rest))
        case "think" | "limit":
            pass
        case _:
            yield Say(f"echo: {line}")


def called(line: str, tools: Sequence[Tool]) -> Call | None:
    """The call that a line orders, if it orders one of a tool that is offered."""
    found = CALL.match(line)
    tool = find_tool(found.group(1), tools) if found else None
    return Call(tool, json.loads(found.group(2) or "{}")) if found and tool else None


def find_tool(name: str, tools: Sequence[Tool]) -> Tool | None:
    """The tool of this name; every agent puts the server's name before it in a way of its own."""
    exact = [tool for tool in tools if tool.name == name]
    ending = [tool for tool in tools if re.search(rf"[^A-Za-z0-9]{re.escape(name)}$", tool.qualified)]
    return next(iter(exact + ending), None)
