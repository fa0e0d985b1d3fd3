"""How a seat is ordered, and what is remembered of a session so that it can be loaded again. Values only."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from ostler.pool.ports import PermissionPolicy, ToolTicket
from ostler.process.folder import Folder
from ostler.wire.json import JsonObject


@dataclass(frozen=True, slots=True)
class SeatOrder:
    """How to open one agent-side session."""

    cwd: str
    """Canonical (see `canonical_cwd`): some agents accept any cwd silently."""
    policy: PermissionPolicy
    ticket: ToolTicket | None = None
    """This seat's tools; None: a session without tools of the gateway."""
    declared: JsonObject | None = field(default=None, repr=False)
    """How the agent is told of the tools, where the channel itself declares them (`McpPipe.declare`)."""
    mode: str | None = None
    """An agent-side session mode to switch to after the open."""
    meta: Mapping[str, object] = field(default_factory=dict)
    """Passed on as `_meta` where the dialect has it."""
    folder: Folder | None = field(default=None, repr=False, compare=False)
    """The directory `cwd`, held open: no prompt is sent once its name leads elsewhere."""


@dataclass(frozen=True, slots=True)
class LastTexts:
    """The last prompt that contained words and ended well."""

    end: str = field(default="", repr=False)
    """The end of its text (`replay_check.end_of`); empty where it is not known."""
    alone: bool = True
    """Whether the prompt was nothing but text."""
    answered: bool = False
    """Whether there was an answer to it, in words or by a tool."""
    since: int = 0
    """Prompts after it that were cancelled, failed or had no words."""


@dataclass(frozen=True, slots=True)
class SessionMemo:
    """What must be known of a session to load it on another process. Wall-clock seconds."""

    session_id: str
    cwd: str
    opened_at: float
    last_turn_at: float
    said: LastTexts = LastTexts()
    """What the agent's record must contain."""
