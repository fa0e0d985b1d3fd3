"""`[tools.mcp.<name>]`, typed. A configuration error names the server and the key, and shows no secret."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final

from ostler.bridge.errors import BridgeError
from ostler.bridge.schema import shape_of
from ostler.bridge.validation import problems
from ostler.wire.json import JsonObject

ALL: Final = ("*",)

_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,31}\Z")
_TOOL = re.compile(r"[A-Za-z0-9_-]{1,64}\Z")
_TELLING = re.compile(r"(?:command|env|headers|url)\b")
"""Keys whose values may contain a secret."""


class UpstreamMisconfigured(BridgeError):
    """The table of a tool server has an error."""

    def __init__(self, name: str, detail: str) -> None:
        self.name = name
        self.detail = detail
        super().__init__(f"[tools.mcp.{name}]: {detail}")


@dataclass(frozen=True, slots=True, kw_only=True)
class UpstreamSettings:
    """One external tool server as configured: either `command` (stdio) or `url` (HTTP)."""

    name: str
    command: tuple[str, ...] = ()
    url: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict, repr=False)
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Added to PATH, HOME and the like; nothing else of the gateway's own environment is passed on."""
    cwd: str | None = None
    prefix: str | None = None
    """Put in front of every tool's name; by default the server's name and an underscore."""
    allow: tuple[str, ...] = ALL
    """Patterns for the server's own tool names that are shown."""
    deny: tuple[str, ...] = ()
    providers: tuple[str, ...] = ALL
    """Patterns for the providers whose sessions see these tools."""
    sessions: tuple[str, ...] = ALL
    """Patterns for the keys of the sessions that see these tools."""
    per_session: bool = False
    """Start one server for each session, ended with it; for servers that keep state about their client."""
    handshake: bool = False
    """Begin with `initialize` instead of trying the newest revision first; for servers that fail on the latter."""
    timeout: float = 120.0
    start_deadline: float = 30.0
    output_limit: int = 100_000

    @classmethod
    def of(cls, name: str, table: JsonObject) -> "UpstreamSettings":
        """Read a table of a configuration file. Raises `UpstreamMisconfigured`."""
        if found := problems(_SHAPE.schema, {**table, "name": name}):
            raise UpstreamMisconfigured(name, "; ".join(map(_unsaid, found)))
        settings: UpstreamSettings = _SHAPE.load({**table, "name": name})
        settings.check()
        return settings

    def check(self) -> None:
        if _NAME.match(self.name) is None:
            raise UpstreamMisconfigured(self.name[:64], "a name is up to 32 letters, digits, underscores and dashes")
        if bool(self.command) == bool(self.url):
            raise UpstreamMisconfigured(self.name, "give either command or url")
        if self.url is not None and not self.url.startswith(("http://", "https://")):
            raise UpstreamMisconfigured(self.name, "url must be http or https")
        if self.cwd is not None and not Path(self.cwd).is_absolute():
            raise UpstreamMisconfigured(self.name, "cwd must be absolute")

    def offers(self, tool: str) -> bool:
        """Whether this tool of the server is shown at all. `deny` beats `allow`."""
        if _TOOL.match(self.shown(tool)) is None:
            return False
        return _any(self.allow, tool) and not _any(self.deny, tool)

    def serves(self, *, provider: str, session: str) -> bool:
        return _any(self.providers, provider) and _any(self.sessions, session)

    def shown(self, tool: str) -> str:
        return (f"{self.name}_" if self.prefix is None else self.prefix) + tool


def _any(patterns: tuple[str, ...], name: str) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _unsaid(problem: str) -> str:
    """The problem without the value, which may be a secret; its kind stays."""
    if _TELLING.match(problem) is None:
        return problem
    wanted, got, value = problem.partition(", got ")
    return wanted + got + value.partition(" ")[0]


_SHAPE: Final = shape_of(UpstreamSettings)
