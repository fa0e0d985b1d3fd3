"""What an operator may say about a provider. Validated where it is made, so that no start fails for a typo.

Rules:
- A deadline is above zero and below a day; there is no "no deadline", because a malformed request is simply never
  answered by five of seven agents.
- Values are frozen; a changed setting is a new value and, where it shapes the process, a new fingerprint.
"""

import resource
from collections.abc import Mapping
from dataclasses import dataclass, field, fields

from ostler.pool.errors import PoolError
from ostler.pool.provider import Approval, ToolChannel

DAY = 86_400.0


class BadSetting(PoolError, ValueError):
    """A provider's settings contradict themselves or the world. `field` names the culprit."""

    def __init__(self, field: str, why: str) -> None:
        super().__init__(f"{field}: {why}")
        self.field = field


REPLAY_AT_MOST = 10.0
"""Seconds for what a loaded session's agent repeats after it has answered."""


@dataclass(frozen=True, slots=True)
class Deadlines:
    """Seconds. How long each thing may take before it is called failed."""

    start: float = 60.0
    """From spawn to the answered handshake."""
    session_open: float = 60.0
    session_load: float = 60.0
    tools: float = 30.0
    """From an opened session to its agent having come for the tools."""
    prompt_inactivity: float = 900.0
    """Without any sign from the agent during a turn."""
    cancel_grace: float = 10.0
    """From a cancel to the end of the turn; then the session is sealed."""
    close: float = 5.0
    write: float = 60.0
    """For a prompt to leave our hands."""
    probe: float = 10.0

    @property
    def seat(self) -> float:
        """The longest way to a seat of which these are the limits: the end of the session elsewhere, its record taken
        back in two, a load in three steps and what it repeats, its end in two because it is not believed, its record
        put away in two, an open with a mode, its tools.
        """
        return 3 * self.session_load + REPLAY_AT_MOST + 7 * self.close + 2 * self.session_open + self.tools

    def __post_init__(self) -> None:
        for each in fields(self):
            value = getattr(self, each.name)
            if not 0 < value <= DAY:
                raise BadSetting(f"deadlines.{each.name}", f"must lie between 0 and {DAY:.0f} seconds, not {value}")


@dataclass(frozen=True, slots=True)
class ProviderSettings:
    """One provider as this gateway uses it."""

    command: tuple[str, ...] | None = None
    """Instead of the provider's own way to find its agent."""
    args: tuple[str, ...] = ()
    """Behind the provider's own arguments."""
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    """On top of the provider's own; wins."""
    pass_env: tuple[str, ...] = ()
    """More names let through from the gateway's environment."""
    prefix: tuple[str, ...] = ()
    rlimits: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    open_requests: int = 64
    """Questions and tool calls of one session that may wait for their answers; one more is refused."""
    home: str | None = None
    """HOME of the process; None: the gateway's own."""
    approval: Approval = Approval.AUTO
    commands: bool = False
    """Whether a text that begins like a command of the agent is one. False: it is sent as plain text."""
    tool_channel: ToolChannel | None = None
    """One of the provider's `tool_channels`; None: its own."""
    cache: str | None = None
    """A private directory where agents may keep compiled code; None: no such cache."""
    deadlines: Deadlines = field(default_factory=Deadlines)

    def __post_init__(self) -> None:
        if self.command is not None and not (self.command and self.command[0]):
            raise BadSetting("command", "must name a program")
        for name in (*self.env, *self.pass_env):
            if not name or "=" in name or "\0" in name:
                raise BadSetting("env", f"{name!r} is no name of an environment variable")
        for each, value in (("home", self.home), ("cache", self.cache)):
            if value is not None and not value.startswith("/"):
                raise BadSetting(each, f"must be an absolute path, not {value!r}")
        if self.open_requests < 1:
            raise BadSetting("open_requests", f"must be at least 1, not {self.open_requests}")
        for kind, (soft, hard) in self.rlimits.items():
            if hard != resource.RLIM_INFINITY and (soft == resource.RLIM_INFINITY or soft > hard):
                raise BadSetting("rlimits", f"limit {kind}: the soft limit {soft} is above the hard limit {hard}")
