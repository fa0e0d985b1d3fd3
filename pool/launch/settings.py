"""The operator's settings of one provider. Validated at creation, so that no start fails because of a typo.

Rules:
- A deadline is above zero and at most a day. "No deadline" cannot be set, because five of seven agents never answer a
  malformed request.
- Values are frozen; a changed setting is a new value and, where it shapes the process, a new fingerprint.
"""

import resource
from collections.abc import Mapping
from dataclasses import dataclass, field, fields

from ostler.pool.errors import PoolError
from ostler.pool.provider import Approval, ToolChannel

DAY = 86_400.0


class BadSetting(PoolError, ValueError):
    """A provider's settings contradict each other, the provider or the system. `field` names the setting."""

    def __init__(self, field: str, why: str) -> None:
        super().__init__(f"{field}: {why}")
        self.field = field


REPLAY_AT_MOST = 10.0
"""Seconds within which the agent of a loaded session must have repeated the conversation after its answer."""


@dataclass(frozen=True, slots=True)
class Deadlines:
    """How long each operation may take before it fails. All values in seconds."""

    start: float = 60.0
    """From spawn to the answered handshake."""
    session_open: float = 60.0
    session_load: float = 60.0
    tools: float = 30.0
    """From an opened session until its agent has connected to the tools."""
    prompt_inactivity: float = 900.0
    """Without any sign from the agent during a turn."""
    cancel_grace: float = 10.0
    """From a cancel to the end of the turn; then the session is sealed."""
    close: float = 5.0
    write: float = 60.0
    """Until the agent's pipe takes bytes again, before a prompt or an open is sent."""
    probe: float = 10.0

    @property
    def seat(self) -> float:
        """The longest time that a seat can take: the end of the session elsewhere, its record taken back in two steps,
        a load in three and its replay, its end in two because the replay is not believed, its record put away in two,
        an open with a mode, its tools.
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
    """The command that starts the agent, instead of the provider's own search."""
    args: tuple[str, ...] = ()
    """Arguments appended to the provider's own."""
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Environment variables on top of the provider's own; these win."""
    pass_env: tuple[str, ...] = ()
    """More variables to pass on from the gateway's environment."""
    prefix: tuple[str, ...] = ()
    rlimits: Mapping[int, tuple[int, int]] = field(default_factory=dict)
    open_requests: int = 64
    """Permission requests and tool calls of one session that may wait for answers; one more is refused."""
    home: str | None = None
    """HOME of the process; None: the gateway's own."""
    approval: Approval = Approval.AUTO
    commands: bool = False
    """Whether a text that begins like a command of the agent is obeyed as one. False: it is sent as plain text."""
    tool_channel: ToolChannel | None = None
    """One of the provider's `tool_channels`; None: its default."""
    cache: str | None = None
    """A private directory where agents may cache compiled code; None: no such cache."""
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
