"""Checks the functions that a request declares, and its tool choice. Pure.

Rule: everything that can be refused is refused here, before anything is stored or started.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ostler.gateway.http.body import FunctionTool
from ostler.gateway.model.api_error import bad
from ostler.wire.json import JsonObject

NAME = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")
NAME_LIMIT = 64


@dataclass(frozen=True, slots=True)
class Functions:
    """The client's functions that the agent gets for this turn."""

    definitions: tuple[JsonObject, ...] = ()
    hint: str = ""

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the functions."""
        return tuple(str(definition["name"]) for definition in self.definitions)


def functions_of(tools: Sequence[FunctionTool] | None, choice: str | dict[str, Any] | None) -> Functions:
    """Return the functions that the tool choice lets the agent see. Raises a 400."""
    definitions = [definition_of(tool, place) for place, tool in enumerate(tools or ())]
    names = [str(definition["name"]) for definition in definitions]
    if len(set(names)) != len(names):
        raise bad("tools: two functions have the same name", "tools")
    match choice:
        case None | "auto":
            return Functions(tuple(definitions))
        case "none":
            return Functions()
        case "required":
            return Functions(tuple(definitions), insisting(names))
        case dict():
            return named_choice(definitions, choice)
        case _:
            raise bad("tool_choice must be none, auto, required, or name a function of tools", "tool_choice")


def named_choice(definitions: Sequence[JsonObject], choice: dict[str, Any]) -> Functions:
    """Return one function that must be called, or the list of those that may be."""
    listed = choice.get("tools")
    if choice.get("type") == "allowed_tools" and isinstance(listed, list):
        allowed = [tool.get("name") if isinstance(tool, dict) else None for tool in listed]
        return chosen(definitions, allowed, insist=choice.get("mode") == "required")
    inner = choice.get("function")
    name = choice.get("name") or (inner.get("name") if isinstance(inner, dict) else None)
    return chosen(definitions, [name], insist=True)


def chosen(definitions: Sequence[JsonObject], names: Sequence[object], *, insist: bool) -> Functions:
    """Return only the named functions. Raises a 400 for a name that is not declared."""
    left = tuple(definition for definition in definitions if definition["name"] in names)
    if len(left) != len(names):
        raise bad("tool_choice names a function that is not in tools", "tool_choice")
    return Functions(left, insisting([str(name) for name in names]) if insist else "")


def insisting(names: Sequence[str]) -> str:
    """Return the instruction to call a tool: an agent cannot be forced, only told."""
    return f"[tools] Before you answer, call at least one of these tools: {', '.join(names)}." if names else ""


def definition_of(tool: FunctionTool, place: int) -> JsonObject:
    """Return a function as an MCP tool definition. Raises a 400."""
    param = f"tools[{place}]"
    if tool.type != "function":
        text = f"{param}: tools of type {tool.type[:80]!r} are not supported; the agent brings its own, send functions"
        raise bad(text, f"{param}.type", "unsupported_tool")
    if not tool.name or len(tool.name) > NAME_LIMIT or not NAME.issuperset(tool.name):
        raise bad(f"{param}.name must have 1 to {NAME_LIMIT} letters, digits, '_' or '-'", f"{param}.name")
    schema = tool.parameters or {"type": "object", "properties": {}}
    if schema.get("type") != "object":
        raise bad(f"{param}.parameters must be a JSON schema of type object", f"{param}.parameters")
    # qwen (0.15.10) hides a tool without a description from its model.
    described = tool.description or f"The client's function {tool.name}."
    return {"name": tool.name, "description": described, "inputSchema": schema}
