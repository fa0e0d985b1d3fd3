"""What is asked for, checked: model, directory, functions. Pure but for a look at the directory, beside the loop.

Rules: everything that can be refused is refused here, before anything is stored or started.
"""

import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ostler.gateway.config.keys import Caller
from ostler.gateway.http.body import FunctionTool
from ostler.gateway.http.errors import ApiError, bad
from ostler.gateway.model.model_names import Models
from ostler.gateway.model.permits import NAME as PERMISSIONS
from ostler.gateway.model.permits import WIDTH, PermissionRule, PermissionRules, narrowest, not_kept, rule_of
from ostler.pool.errors import BadDirectory
from ostler.pool.keys import TransportKey, canonical_cwd
from ostler.pool.launch.directories import Directories
from ostler.wire.json import JsonObject

NAME = frozenset("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")
NAME_LIMIT = 64


def look_below(roots: Sequence[str], default_cwd: Path) -> Callable[[str], str]:
    """How a directory is judged: below the roots, or the one that is meant where nobody names any."""
    default = str(default_cwd)
    return lambda cwd: canonical_cwd(cwd, () if cwd == default else roots)


@dataclass(frozen=True, slots=True)
class Places:
    """Models and directories of this gateway."""

    models: Models
    default_cwd: Path
    directories: Directories
    permits: PermissionRules = field(default_factory=PermissionRules)

    async def key(self, model: str, cwd: str | None, caller: Caller) -> TransportKey:
        """The process that shall answer; or the reason why this caller may not have it."""
        found = self.models.resolve(model)
        if not caller.may_use(model) and (found is None or not caller.may_use("/".join(found))):
            # The same for a model that there is not: a key learns nothing of what others may use.
            raise ApiError(403, f"this key may not use model {model[:200]!r}", param="model", code="model_not_allowed")
        if found is None:
            text = f"unknown model {model[:200]!r}; there is: {self.models.offered(to_all=not caller.models)}"
            raise ApiError(404, text, param="model", code="model_not_found")
        return TransportKey(*found, await self.directory(cwd, caller))

    def rule(self, key: TransportKey, caller: Caller, wish: str | None, kept: str | None) -> PermissionRule:
        """What the agent hears when it asks. `wish` is the request's own word, `kept` the one of its session."""
        given = self.permits.rule(key, caller.rule)
        if wish is not None:
            self._check_wish(given, wish)
        rule = narrowest(given, rule_of(wish or kept)) or given
        if not self.permits.kept(key, rule):
            raise ApiError(403, not_kept(key.provider, rule), param="model", code="permissions_not_kept")
        return rule

    def _check_wish(self, given: PermissionRule, wish: str) -> None:
        wished = rule_of(wish)
        if wished is None:
            raise bad(f"metadata.permissions must be one of {', '.join(WIDTH)}", f"metadata.{PERMISSIONS}")
        if WIDTH[wished] > WIDTH[given]:
            text = f"permissions for this key and model are {given.value!r}; a session may narrow that, not widen it"
            raise ApiError(403, text, param=f"metadata.{PERMISSIONS}", code="permissions_not_allowed")

    async def directory(self, cwd: str | None, caller: Caller) -> str:
        """Canonical and allowed."""
        if cwd is None and caller.roots:
            cwd = caller.roots[0]
        given = str(self.default_cwd) if cwd is None else cwd
        try:
            place = await self.directories.check(given)
        except BadDirectory as error:
            if is_outside(error, given, caller):
                raise not_allowed(given) from error
            raise bad(str(error), "metadata.cwd", "invalid_cwd") from error
        if not caller.may_enter(place):
            raise not_allowed(given)
        return place


def is_outside(error: BadDirectory, cwd: str, caller: Caller) -> bool:
    """Whether what cannot be used lies outside the caller's roots, so that they may not even know why."""
    return Path(cwd).is_absolute() and not caller.may_enter(error.place or os.path.normpath(cwd))


def not_allowed(cwd: str) -> ApiError:
    """A directory outside the roots of a key."""
    return ApiError(403, f"this key may not work in {cwd[:200]!r}", param="metadata.cwd", code="cwd_not_allowed")


@dataclass(frozen=True, slots=True)
class Functions:
    """The client's functions that the agent gets for this turn."""

    definitions: tuple[JsonObject, ...] = ()
    hint: str = ""

    @property
    def names(self) -> tuple[str, ...]:
        """What they are called."""
        return tuple(str(definition["name"]) for definition in self.definitions)


def functions_of(tools: Sequence[FunctionTool] | None, choice: str | dict[str, Any] | None) -> Functions:
    """The functions, as far as the choice lets the agent see them."""
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
    """One function that must be called, or a list of those that may be."""
    listed = choice.get("tools")
    if choice.get("type") == "allowed_tools" and isinstance(listed, list):
        allowed = [tool.get("name") if isinstance(tool, dict) else None for tool in listed]
        return chosen(definitions, allowed, insist=choice.get("mode") == "required")
    inner = choice.get("function")
    name = choice.get("name") or (inner.get("name") if isinstance(inner, dict) else None)
    return chosen(definitions, [name], insist=True)


def chosen(definitions: Sequence[JsonObject], names: Sequence[object], *, insist: bool) -> Functions:
    """Only these."""
    left = tuple(definition for definition in definitions if definition["name"] in names)
    if len(left) != len(names):
        raise bad("tool_choice names a function that is not in tools", "tool_choice")
    return Functions(left, insisting([str(name) for name in names]) if insist else "")


def insisting(names: Sequence[str]) -> str:
    """An agent cannot be forced, only told."""
    return f"[tools] Before you answer, call at least one of these tools: {', '.join(names)}." if names else ""


def definition_of(tool: FunctionTool, place: int) -> JsonObject:
    """A function as an MCP tool."""
    param = f"tools[{place}]"
    if tool.type != "function":
        text = f"{param}: tools of type {tool.type[:80]!r} are not supported; the agent brings its own, send functions"
        raise bad(text, f"{param}.type", "unsupported_tool")
    if not tool.name or len(tool.name) > NAME_LIMIT or not NAME.issuperset(tool.name):
        raise bad(f"{param}.name must have 1 to {NAME_LIMIT} letters, digits, '_' or '-'", f"{param}.name")
    schema = tool.parameters or {"type": "object", "properties": {}}
    if schema.get("type") != "object":
        raise bad(f"{param}.parameters must be a JSON schema of type object", f"{param}.parameters")
    # qwen (0.15.10) hides a tool that has no description from its model.
    described = tool.description or f"The client's function {tool.name}."
    return {"name": tool.name, "description": described, "inputSchema": schema}
