"""The declaration of a kind of agent: one frozen value per provider.

Rules:
- No code outside `pool/providers/` compares a provider's name: a difference between agents is a field of this file.
- Every field is a measured fact of a pinned version, or the careful value where nothing was measured. The contract
  suite proves the declarations by acting (close, then prompt), because advertised flags are hints, not promises.
- A declaration contains no secret and no path of a machine; settings and environment come in through `launch`.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from types import MappingProxyType
from typing import Protocol

from ostler.pool.order import SessionMemo
from ostler.wire.public_names import renamed


class Sharing(StrEnum):
    """How many sessions may live in one process without seeing each other."""

    SESSIONS = "sessions"
    PER_CWD = "per_cwd"
    """One session for each working directory; a second one in the same directory would share its tools."""
    NONE = "none"


class CloseVerb(StrEnum):
    """The strongest operation that really ends a session."""

    NONE = "none"
    SESSION_CLOSE = "session_close"
    """ACP `session/close`, where the agent offers it; otherwise the session is forgotten and counted as leaked."""
    UNSUBSCRIBE_ARCHIVE = "unsubscribe_archive"
    KILL = "kill"
    """The process holds one session and is ended with it, by a graceful stop: it may have something to save."""


class ToolChannel(StrEnum):
    """How a session's tools reach the agent."""

    RELAY = "relay"
    """The agent launches our relay as a stdio tool server. Every agent supports it."""
    DYNAMIC_TOOLS = "dynamic_tools"
    """The dialect itself has tool calls (codex app-server)."""
    HTTP = "http"
    """Streamable HTTP on loopback: no process for each session, but also no peer that could be checked."""
    ACP = "acp"
    """MCP over the agent's existing pipe. A draft of the protocol: used only where it is configured."""


class Approval(StrEnum):
    """Which party approves the agent's actions."""

    ASK = "ask"
    """The agent asks us, and our policy answers."""
    AUTO = "auto"
    """The agent does not ask."""
    AGENT = "agent"
    """The agent's own configuration decides."""


class Level(StrEnum):
    """What an agent may do, from the narrowest to the widest."""

    DENY = "deny"
    """Every permission request is answered with no."""
    ASK = "ask"
    """A person answers every permission request."""
    WORKSPACE = "workspace"
    """Two things happen without a request: edits inside the session's directory, and commands that the agent's own
    sandbox confines to it. A person is asked for everything else; where no person can answer, the answer is no.
    """
    AUTO = "auto"
    """Everything is allowed without a request."""
    ALLOW = "auto"
    """The name of `auto` before 0.2."""

    @classmethod
    def _missing_(cls, value: object) -> "Level | None":
        return cls.AUTO if value == "allow" else None


class Deed(StrEnum):
    """What happens when an agent wants to perform an action."""

    DONE = "done"
    ASKED = "asked"
    """The agent asks for permission first."""
    REFUSED = "refused"


@dataclass(frozen=True, slots=True)
class Deeds:
    """What happens, at one level, when an agent performs four kinds of action with its own tools."""

    write_inside: Deed
    """Writing a file in the session's directory with the agent's edit tool."""
    write_outside: Deed
    """Writing a file elsewhere with the agent's edit tool."""
    command: Deed
    """A shell command that writes inside the directory."""
    network: Deed
    """A shell command that connects to a server."""

    @classmethod
    def all(cls, deed: Deed) -> "Deeds":
        """The same outcome for all four."""
        return cls(deed, deed, deed, deed)


UNHELD: Mapping[Level, Deeds] = MappingProxyType({Level.AUTO: Deeds.all(Deed.DONE)})
"""For an agent that acts without asking, or of which nothing was measured."""
ASKING: Mapping[Level, Deeds] = MappingProxyType(
    {
        Level.AUTO: Deeds.all(Deed.DONE),
        Level.WORKSPACE: Deeds(Deed.DONE, Deed.ASKED, Deed.ASKED, Deed.ASKED),
        Level.ASK: Deeds.all(Deed.ASKED),
        Level.DENY: Deeds.all(Deed.REFUSED),
    }
)
"""For an agent without a sandbox that asks before each of the four: the policy's answers make the level."""

LEADING_SLASH = re.compile(r"(?=\s*/)")
"""A text that an agent may take for a command of its own."""


class ToolNews(StrEnum):
    """What the agent does when it is told that a session's tools changed."""

    IGNORED = "ignored"
    """It never lists them again."""
    LATE = "late"
    """It lists them, but the next prompt may still be answered with the old ones."""
    AT_ONCE = "at_once"
    """Once it has listed them, its next prompt uses the new ones."""


class CodecName(StrEnum):
    """Which dialect the process speaks."""

    ACP = "acp"
    CODEX_APP_SERVER = "codex_app_server"


@dataclass(frozen=True, slots=True)
class LoadTrust:
    """When `load` may be trusted. Otherwise our own transcript is replayed into a new session."""

    offered: bool = True
    settle: float = 0.0
    """Seconds of quiet after the session's last turn before its record on disk is complete."""
    repeats: bool = True
    """Whether it repeats the conversation when it loads, as ACP requires. Then a last prompt that is not repeated has
    been forgotten. False for an agent that never repeats: its loads are trusted unchecked.
    """
    next_minute: bool = False
    """Never load within the clock minute in which the session was opened: the agent would reset its record."""

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
    """A pattern, relative to HOME."""
    name: str
    """A pattern for the files of one session; `{}` stands for the beginning of its id."""
    known: int
    """How many characters of the id the name contains."""


@dataclass(frozen=True, slots=True)
class PromptLimit:
    """The largest prompt that is sent."""

    size: int
    unit: str = "characters"


@dataclass(frozen=True, slots=True)
class FaultReading:
    """How to read this agent's errors: JSON-RPC codes mean different things to each agent."""

    unknown_session: frozenset[int] = frozenset({-32002})
    session_words: re.Pattern[str] = re.compile(r"session|thread|not found", re.IGNORECASE)
    """Words that the message must contain besides the code, because agents use the same codes for other errors too."""
    cancelled: frozenset[int] = frozenset({-32800})
    """Codes that answer a cancelled prompt instead of a stop reason."""
    spoiled: frozenset[int] = frozenset()
    """Those of them after which the agent continues the turn unseen: that session gets no further prompt."""


class CommandFinder(Protocol):
    """Looks for programs on the PATH that the child process will have."""

    def program(self, name: str, *, install: str) -> str:
        """The absolute path of a command. Raises `AgentMissing`, which says how to install it."""

    def node_script(self, name: str, *, install: str) -> tuple[str, ...]:
        """A Node command as (node, script), without a launcher in between. A command that is no script is returned as
        it is.
        """

    def native(self, name: str, *, pattern: str, install: str) -> str:
        """The native binary that a Node launcher would start (`pattern` is looked up beside the package), or the
        command itself.
        """


@dataclass(frozen=True, slots=True)
class ProviderNeeds:
    """The model and approval mode that a process must serve."""

    model: str | None
    approval: Approval


@dataclass(frozen=True, slots=True)
class Recipe:
    """Arguments after the program, and environment besides the provider's `fixed_env`."""

    args: tuple[str, ...] = ()
    env: Mapping[str, str] = field(default_factory=dict)


Find = Callable[[CommandFinder], tuple[str, ...]]
"""Returns the program's command. A setting may replace it; the arguments stay the provider's."""
Arguments = Callable[[ProviderNeeds], Recipe]


def no_arguments(_wanted: ProviderNeeds) -> Recipe:
    """The `arguments` of agents that need none."""
    return Recipe()


@dataclass(frozen=True, kw_only=True)
class Provider:
    """The declaration of one kind of agent."""

    name: str
    title: str
    short: str = ""
    """A short name that people use. Keys, labels and records use `name`."""
    codec: CodecName
    find: Find | None
    """None: the command must come from the settings."""
    install: str
    """The command with which a person installs the agent."""
    measured: str = ""
    """The version with which this declaration was measured."""
    arguments: Arguments = no_arguments
    fixed_env: Mapping[str, str] = field(default_factory=dict)
    """Set for every process, however its command was found: no relaunch, no update checks, trust."""
    pass_env: tuple[str, ...] = ()
    """Names of variables that are passed on from the gateway's environment."""
    credentials: tuple[str, ...] = ()
    """Those of them that are secrets. The gateway names them when the agent says it is not logged in."""
    credential_files: tuple[str, ...] = ()
    """Paths relative to HOME; a change of their content starts a new generation of processes."""
    moved_by: Mapping[str, str] = field(default_factory=dict)
    """Variables that move such a folder of HOME, with its content, to another place."""
    sharing: Sharing = Sharing.NONE
    seats_per_process: int = 1
    recycle_after: int | None = None
    """Seats after which a process is replaced; None: by age and memory only."""
    parallel_opens: int = 1
    """How many sessions may be opened at once on one HOME. A loading session stops counting when its agent has
    answered, even if its replay has not ended.
    """
    first_start_alone: bool = False
    """Two first starts at once on one HOME get in each other's way: the second waits for the first's handshake."""
    refill_pause: float = 0.0
    """Seconds before a claimed parked seat is replaced. Where opening a session occupies the agent's only thread, the
    first words of the claim's answer would wait for it.
    """
    starts_in_home: bool = False
    """Start the process in HOME and not in its key's directory, because it keeps records of its own there."""
    load: LoadTrust = NEVER
    records: Records | None = None
    """Files that are moved away while no client has the session open, for an agent whose loads read every record."""
    replays_noise: re.Pattern[str] | None = None
    """User texts that the agent adds by itself when it replays a loaded session."""
    replay_quiet: float = 0.0
    """Seconds of quiet after an answered load before its replay is over, for agents that answer before they are
    done.
    """
    tool_news: ToolNews = ToolNews.IGNORED
    close: CloseVerb = CloseVerb.NONE
    close_ends_tools: bool = True
    """Whether the tool servers of a session end with it. If not, they run until the process ends."""
    tokens_in_argv: bool = False
    """The agent puts the environment of tool servers into the arguments of a child, where every user of the machine can
    read it. The token is then protected only by the socket's directory and the peer check.
    """
    states_session: bool = False
    """With each call by relay or HTTP the agent states its own id of the session, as `threadId` or `sessionId` in
    `_meta`. The bridge then refuses a call whose token is another session's.
    """
    tool_channel: ToolChannel = ToolChannel.RELAY
    """The channel that is used when the settings name none."""
    tool_channels: frozenset[ToolChannel] = frozenset({ToolChannel.RELAY})
    """The channels that the settings may name, each tested with this agent by the contract suite."""
    prompt_limit: PromptLimit | None = None
    approvals: frozenset[Approval] = frozenset({Approval.AUTO})
    """The approval modes that a process of this provider can be put into. An agent of which nothing was measured is
    assumed to act without asking.
    """
    levels: Mapping[Level, Deeds] = field(default_factory=lambda: UNHELD)
    """The permission levels that the agent can be held to, and what happens to the four kinds of action at each.
    Measured by the contract suite. A level that is missing here is refused for the agent.
    """
    commands: re.Pattern[str] | None = LEADING_SLASH
    """Texts that the agent obeys as commands of its own: they are sent after a line that makes them plain text. None:
    it has no such commands.
    """
    mentions: re.Pattern[str] | None = None
    """Places where the agent would read a word of the text as the name of a file to include: a zero-width character is
    inserted there.
    """
    auto_mode: str | None = None
    """The session mode that stands for `Approval.AUTO`, for agents that take it per session."""
    faults: FaultReading = field(default_factory=FaultReading)
    keeps_cancelled_prompts: bool = True
    """Whether a cancelled prompt stays in the agent's history."""
    strips: re.Pattern[str] | None = None
    """Text that the agent itself adds to the answer and that is no part of it."""
    late_updates: float = 0.0
    """Seconds of quiet after the end of a turn in which its last updates may still come."""
    cancel_quiet: float = 0.05
    """Seconds of quiet after a cancelled turn before the next prompt is sent: late pieces must not enter it."""
    expected_start: float = 1.0
    """Seconds from spawn to handshake on an idle machine; limits below it make no sense."""
    seat_weight: float = 0.1
    """The memory of a seat, as a share of the process: 1 means that each session is a process of its own."""

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
    """From every name that a provider may be called by to its full name. A full name wins over another provider's short
    name.
    """
    short = {provider.short: provider.name for provider in providers.values() if provider.short}
    return {**short, **{name: name for name in providers}}


def by_name(providers: Sequence[Provider]) -> Mapping[str, Provider]:
    """A lookup table by name. Raises for two providers with one name or one short name: one of them would be started in
    place of the other.
    """
    table: dict[str, Provider] = {}
    short: set[str] = set()
    for provider in providers:
        if provider.name in table or provider.short in short:
            raise ValueError(f"two providers are called {provider.name!r}, or {provider.short!r} for short")
        table[provider.name] = provider
        short |= {provider.short} - {""}
    return MappingProxyType(table)


__getattr__ = renamed(__name__, {"Finder": "CommandFinder", "Wanted": "ProviderNeeds"})
