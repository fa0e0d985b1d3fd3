"""What a provider of agents is, as one frozen declaration. Everything an agent does differently is said here.

Rules:
- No code outside `pool/providers/` compares a provider's name: a difference between agents is a field of this file.
- Every field is a measured fact of a pinned version, or the careful value where nothing was measured. The contract
  suite proves the declarations by acting (close, then prompt), because advertised flags are hints and not promises.
- A declaration holds no secret and no path of a machine; settings and environment come in through `launch`.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Protocol

from ostler.pool.order import SessionMemo
from ostler.wire.renamed import renamed


class Sharing(StrEnum):
    """How many sessions may live in one process without seeing each other."""

    SESSIONS = "sessions"
    PER_CWD = "per_cwd"
    """One session for each working directory; a second one in the same directory would share its tools."""
    NONE = "none"


class CloseVerb(StrEnum):
    """The strongest thing that really ends a session."""

    NONE = "none"
    SESSION_CLOSE = "session_close"
    """ACP `session/close`, where the agent offers it; otherwise the session is forgotten and counted."""
    UNSUBSCRIBE_ARCHIVE = "unsubscribe_archive"
    KILL = "kill"
    """The process holds one session and goes with it, politely: it may have something to save."""


class ToolChannel(StrEnum):
    """How a session's tools reach the agent."""

    RELAY = "relay"
    """The agent launches our relay as a stdio tool server. Every agent can."""
    DYNAMIC_TOOLS = "dynamic_tools"
    """The dialect itself has tool calls (codex app-server)."""
    HTTP = "http"
    """Streamable HTTP on loopback: no process for each session, but also no peer that could be checked."""
    ACP = "acp"
    """MCP over the pipe that the agent has already. A draft of the protocol: only where it is configured."""


class Approval(StrEnum):
    """Who is asked before an agent acts."""

    ASK = "ask"
    """The agent asks us, and our policy answers."""
    AUTO = "auto"
    """The agent does not ask."""
    AGENT = "agent"
    """As the agent's own configuration says."""


class Level(StrEnum):
    """What an agent may do, from the narrowest to the widest."""

    DENY = "deny"
    """Every question for permission is answered with no."""
    ASK = "ask"
    """A person answers every question."""
    WORKSPACE = "workspace"
    """Edits inside the session's directory happen unasked, and commands that the agent's own sandbox holds in it. For
    everything else a person is asked; where no person can answer, the answer is no."""
    AUTO = "auto"
    """Everything is allowed."""
    ALLOW = "auto"
    """The name of `auto` before 0.2."""

    @classmethod
    def _missing_(cls, value: object) -> "Level | None":
        return cls.AUTO if value == "allow" else None


class Deed(StrEnum):
    """What becomes of something that an agent wants to do."""

    DONE = "done"
    ASKED = "asked"
    """The agent asks for permission first."""
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Deeds:
    """What becomes, at one level, of four deeds of an agent by its own tools."""

    write_inside: Deed
    """A file in the session's directory, by the agent's tool for edits."""
    write_outside: Deed
    """A file elsewhere, by the same tool."""
    command: Deed
    """A shell command that writes inside the directory."""
    network: Deed
    """A shell command that connects to a server."""

    @classmethod
    def all(cls, deed: Deed) -> "Deeds":
        """The same for each."""
        return cls(deed, deed, deed, deed)


UNHELD: Mapping[Level, Deeds] = MappingProxyType({Level.AUTO: Deeds.all(Deed.DONE)})
"""An agent that acts without asking, or of which nothing was measured."""
ASKING: Mapping[Level, Deeds] = MappingProxyType(
    {
        Level.AUTO: Deeds.all(Deed.DONE),
        Level.WORKSPACE: Deeds(Deed.DONE, Deed.ASKED, Deed.ASKED, Deed.ASKED),
        Level.ASK: Deeds.all(Deed.ASKED),
        Level.DENY: Deeds.all(Deed.REFUSED),
    }
)
"""An agent without a sandbox that asks before each of the four deeds: the answers make the level."""

LEADING_SLASH = re.compile(r"(?=\s*/)")
"""A text that an agent may take for a command of its own."""


class ToolNews(StrEnum):
    """What the agent does when it is told that a session's tools changed."""

    IGNORED = "ignored"
    """It never asks for them again."""
    LATE = "late"
    """It asks, but the next prompt may still be answered with the old ones."""
    AT_ONCE = "at_once"
    """Once it has asked, its next prompt has the new ones."""


class CodecName(StrEnum):
    """Which dialect the process speaks."""

    ACP = "acp"
    CODEX_APP_SERVER = "codex_app_server"


@dataclass(frozen=True, slots=True)
class LoadTrust:
    """When `load` may be believed. Otherwise our own transcript is replayed into a new session."""

    offered: bool = True
    settle: float = 0.0
    """Seconds of calm after the session's last turn before its record on disk is whole."""
    repeats: bool = True
    """It repeats the conversation, as ACP asks: what was said last and is not repeated, it has forgotten. False for an
    agent that never does: its loads are taken at their word."""
    next_minute: bool = False
    """Never within the clock minute in which the session was opened: the agent would reset its record."""

    def ready_at(self, memo: SessionMemo) -> float | None:
        """The wall time from which a load is safe; None when it never is."""
        if not self.offered:
            return None
        ready = memo.last_turn_at + self.settle
        if self.next_minute:
            ready = max(ready, (memo.opened_at // 60 + 1) * 60)
        return ready


NEVER = LoadTrust(offered=False)
TRUSTED = LoadTrust()


@dataclass(frozen=True, slots=True)
class Records:
    """Files that an agent keeps of its sessions, in folders that it reads as a whole to load one of them."""

    folders: str
    """Below HOME, as a pattern."""
    name: str
    """Of the files of a session, as a pattern; `{}` stands for the beginning of its id."""
    known: int
    """Characters of the id that the name holds."""


@dataclass(frozen=True, slots=True)
class PromptLimit:
    """The largest prompt that is sent."""

    size: int
    unit: str = "characters"


@dataclass(frozen=True, slots=True)
class FaultReading:
    """How this agent's errors are to be read, where JSON-RPC codes mean different things to each."""

    unknown_session: frozenset[int] = frozenset({-32002})
    session_words: re.Pattern[str] = re.compile(r"session|thread|not found", re.IGNORECASE)
    """What the message must name besides the code, since agents use the same codes for everything else too."""
    cancelled: frozenset[int] = frozenset({-32800})
    """Codes that answer a cancelled prompt instead of a stop reason."""
    spoiled: frozenset[int] = frozenset()
    """Those of them after which the agent goes on with the turn unseen: nobody prompts that session again."""


class CommandFinder(Protocol):
    """Looks for programs on the PATH that the child will have."""

    def program(self, name: str, *, install: str) -> str:
        """The absolute path of a command; `AgentMissing` says how to install it."""

    def node_script(self, name: str, *, install: str) -> tuple[str, ...]:
        """A Node command as (node, script): no launcher in between. A command that is no script is taken as it is."""

    def native(self, name: str, *, pattern: str, install: str) -> str:
        """The native binary that a Node launcher would start (`pattern` is looked up beside the package), or the
        command."""


@dataclass(frozen=True, slots=True)
class ProviderNeeds:
    """What a process is wanted for."""

    model: str | None
    approval: Approval


@dataclass(frozen=True, slots=True)
class Recipe:
    """Arguments behind the program, and environment besides the provider's `fixed_env`."""

    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)


Find = Callable[[CommandFinder], tuple[str, ...]]
"""Where the program is; a setting may say it instead, the arguments stay the provider's."""
Arguments = Callable[[ProviderNeeds], Recipe]


def no_arguments(_wanted: ProviderNeeds) -> Recipe:
    """For agents that need none."""
    return Recipe()


@dataclass(frozen=True, kw_only=True)
class Provider:
    """One kind of agent."""

    name: str
    title: str
    short: str = ""
    """What people call it. Keys, labels and records have the name."""
    codec: CodecName
    find: Find | None
    """None: the command must come from the settings."""
    install: str
    """What a person types to get the agent."""
    measured: str = ""
    """The version that this declaration was measured with."""
    arguments: Arguments = no_arguments
    fixed_env: Mapping[str, str] = field(default_factory=dict)
    """Set for every process, however its command was found: no relaunch, no update checks, trust."""
    pass_env: tuple[str, ...] = ()
    """Names let through from the gateway's environment."""
    credentials: tuple[str, ...] = ()
    """Those of them that are secrets; also what to set when the agent says it is not logged in."""
    credential_files: tuple[str, ...] = ()
    """Below HOME; a change of their content starts a new generation of processes."""
    moved_by: Mapping[str, str] = field(default_factory=dict)
    """Variables that put such a folder of HOME, with what is in it, somewhere else."""
    sharing: Sharing = Sharing.NONE
    seats_per_process: int = 1
    recycle_after: int | None = None
    """Seats after which a process is replaced; None: by age and memory only."""
    parallel_opens: int = 1
    """How many sessions may be opened at once on one HOME. One that is loaded counts no more when its agent has
    answered, though the end of its replay is still to come."""
    first_start_alone: bool = False
    """Two first starts at once on one HOME get in each other's way: the second one waits for the first's handshake."""
    refill_pause: float = 0.0
    """Seconds before a parked seat that was claimed is replaced: where opening a session holds the agent's only thread,
    the claimer's first words would wait behind it."""
    starts_in_home: bool = False
    """Start the process in HOME and not in its key's directory, because it keeps records of its own there."""
    load: LoadTrust = NEVER
    records: Records | None = None
    """What is put away when nobody has the session open, for an agent whose loads read all that there is."""
    replays_noise: re.Pattern[str] | None = None
    """User texts the agent adds by itself when it replays a loaded session."""
    replay_quiet: float = 0.0
    """Seconds of quiet after an answered load before its replay is over, for agents that answer before they are
    done."""
    tool_news: ToolNews = ToolNews.IGNORED
    close: CloseVerb = CloseVerb.NONE
    close_ends_tools: bool = True
    """Whether the tool servers of a session go with it. Where not, they stay until the process ends."""
    tokens_in_argv: bool = False
    """The agent puts the environment of tool servers into the arguments of a child, where every user of the machine can
    read it: the token is then protected by the socket's directory and the peer check alone."""
    states_session: bool = False
    """With each call by relay or HTTP the agent states its own id of the session, as `threadId` or `sessionId` in
    `_meta`. The bridge then refuses a call whose token is another session's."""
    tool_channel: ToolChannel = ToolChannel.RELAY
    """What is used when the settings name none."""
    tool_channels: frozenset[ToolChannel] = frozenset({ToolChannel.RELAY})
    """What the settings may name: each of them held to the contract suite with this agent."""
    prompt_limit: PromptLimit | None = None
    approvals: frozenset[Approval] = frozenset({Approval.AUTO})
    """The approval modes that a process of this provider can be put into. An agent of which nothing was measured is
    taken to act without asking."""
    levels: Mapping[Level, Deeds] = field(default_factory=lambda: UNHELD)
    """The permission levels that the agent can be held to, and what becomes of the four deeds at each. Measured by the
    contract suite. A level that is missing here is refused for the agent."""
    commands: re.Pattern[str] | None = LEADING_SLASH
    """Texts that the agent obeys as commands of its own: they are sent behind a line that makes them plain text. None:
    it has no such commands."""
    mentions: re.Pattern[str] | None = None
    """Where the agent would read a word of the text as the name of a file to include: a character without width is put
    there."""
    auto_mode: str | None = None
    """The session mode that stands for `Approval.AUTO`, for agents that take it per session."""
    faults: FaultReading = field(default_factory=FaultReading)
    keeps_cancelled_prompts: bool = True
    """Whether a cancelled prompt stays in the agent's history."""
    strips: re.Pattern[str] | None = None
    """What the agent itself writes into the answer and is no part of it."""
    late_updates: float = 0.0
    """Seconds of quiet after the end of a turn in which its last updates may still come."""
    cancel_quiet: float = 0.05
    """Seconds of quiet after a cancelled turn before the next prompt is sent: late pieces must not enter it."""
    expected_start: float = 1.0
    """Seconds from spawn to handshake on a calm machine; limits below it make no sense."""
    seat_weight: float = 0.1
    """What a seat costs, as a share of the process: 1 means that each session is a process of its own."""

    def __post_init__(self) -> None:
        if self.close is CloseVerb.KILL and self.sharing is not Sharing.NONE:
            raise ValueError(f"{self.name}: the end of one session would end all that share its process")
        if self.close is CloseVerb.KILL and self.load.offered:
            raise ValueError(f"{self.name}: a load that is not believed would end the process that is to replay it")

    @property
    def shared(self) -> bool:
        """Whether a second session may enter the process at all."""
        return self.sharing is not Sharing.NONE

    def advice(self) -> str:
        """What to do when the agent says that it is not logged in."""
        if self.credentials:
            names = " or ".join(self.credentials)
            return f"set {names} in the gateway's environment, or log in with the agent's own command"
        return "log in with the agent's own command"


def callings(providers: Mapping[str, Provider]) -> dict[str, str]:
    """What each provider may be called, and its name. A name beats what another one is called for short."""
    short = {provider.short: provider.name for provider in providers.values() if provider.short}
    return {**short, **{name: name for name in providers}}


def by_name(providers: Sequence[Provider]) -> Mapping[str, Provider]:
    """A lookup table; two providers of one name, or called the same for short, are a mistake of whoever installed them:
    one of them would be started for the other."""
    table: dict[str, Provider] = {}
    short: set[str] = set()
    for provider in providers:
        if provider.name in table or provider.short in short:
            raise ValueError(f"two providers are called {provider.name!r}, or {provider.short!r} for short")
        table[provider.name] = provider
        short |= {provider.short} - {""}
    return MappingProxyType(table)


__getattr__ = renamed(__name__, {"Finder": "CommandFinder", "Wanted": "ProviderNeeds"})
