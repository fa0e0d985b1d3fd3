"""The settings, section by section, with their defaults. Values only.

Rules:
- A field's name is its key in `ostler.toml` and, in capitals, in `OSTLER_<SECTION>__<KEY>`.
- Seconds, bytes and counts; a limit is above zero, it never means unlimited.
- Whatever is a secret is named in `SECRET`, and is never printed; nor is what a URL tells its server only.
"""

import re
from itertools import pairwise
from typing import Annotated, Any

from msgspec import Meta, Struct, field
from msgspec.structs import asdict

Seconds = Annotated[float, Meta(gt=0, le=7 * 86_400.0)]
Age = Annotated[float, Meta(gt=0, le=3660 * 86_400.0)]
Hour = Annotated[int, Meta(ge=0, le=23)]
PositiveInt = Annotated[int, Meta(gt=0)]
Amount = Annotated[int, Meta(ge=0, le=2**62)]
Port = Annotated[int, Meta(ge=0, le=65_535)]

SECRET = frozenset({"api_key", "env", "headers", "options", "sha256", "token"})
URL = re.compile(r"(?:[\w-]+=)?[a-z][a-z0-9+.-]*://", re.IGNORECASE)
"""As a value, or as what an option or a variable of a command is."""
TOLD = re.compile(r"(?<=://)[^/?#]*(?=@)|(?<=\?).+")
"""The user with the password, and the query."""
TELLS = re.compile(
    r"(?P<name>[\w=-]*?(?:key|token|secret|password|authorization))(?:(?P<sign>=|:\s*)(?P<value>.+))?$",
    re.IGNORECASE | re.DOTALL,
)
"""An option, a variable or a header that is called like a secret, with its value; or an option before it."""
VARIABLE = re.compile(r"[A-Z][A-Z0-9_]*$")
"""How variables are called, also where their value is the next word."""


class GatewaySettings(Struct, frozen=True, kw_only=True):
    """The server and the sessions behind it."""

    host: str = "127.0.0.1"
    """The address to listen on. Anything but loopback wants a key."""
    port: Port = 8787
    """0 takes a free one."""
    uds: str | None = None
    """A unix socket to listen on instead of host and port."""
    body_limit: PositiveInt = 10 * 1024 * 1024
    """Bytes of a request's body; more is 413."""
    body_values: PositiveInt = 100_000
    """JSON values (objects, arrays, texts, numbers) of a request's body; more is 413. 10 MiB hold 5 million tiny ones,
    which stop everybody for seconds."""
    items_max: PositiveInt = 4_000
    """Input items, messages and content parts of one request together; more is 400. Longer conversations are kept
    here: name a `conversation` or a `previous_response_id` and send what is new."""
    body_timeout: Seconds = 30.0
    """A body that stays away for so long is 408, and one that comes by less than a KiB a second over so long."""
    default_model: str = "demo/demo"
    """For requests that name no model: an alias of `[models]`, `provider/model`, or a provider."""
    default_cwd: str | None = None
    """Where agents work when a request names no directory; it must be there. None: `work/` in the data folder, which is
    made."""
    responses_max: PositiveInt = 10_000
    """Stored responses that can be read again or gone on from; the oldest give way."""
    seats_max: PositiveInt = 64
    """Seats that sessions hold; of those between two turns the least recently used is given back first."""
    seat_idle: Seconds = 900.0
    """A session without a turn for so long gives its seat back; its next turn takes another, with its history."""
    sessions_max: PositiveInt = 10_000
    """Sessions kept in memory; the rest are read from the store when they are asked for."""
    queue_max: PositiveInt = 16
    """Turns that may wait for one session; one more is 429."""
    turn_inactivity: Seconds = 900.0
    """A turn without any event for so long is failed; waiting for a tool or a permission does not count."""
    turn_limit: Seconds | None = None
    """An optional wall clock for a whole turn."""
    answer_room: PositiveInt = 8 * 1024 * 1024
    """About how many bytes of memory one answer may take, its text counted four times; then its turn is stopped and the
    answer incomplete."""
    answer_items: PositiveInt = 10_000
    """Output items of one answer: messages, thoughts, tool calls, plans, questions. Then its turn is stopped and the
    answer incomplete (`max_output_items`)."""
    client_tool_deadline: Seconds = 600.0
    """How long a client may take to answer a function call."""
    call_gather: Seconds = 0.05
    """How long to wait for further parallel calls before they are handed to the client."""
    on_disconnect: str = "cancel"
    """What becomes of a foreground turn whose client left: cancel, or continue. A request may say it itself, and the
    chat page does: its turns go on, and end with Stop."""
    drain: Seconds = 20.0
    """How long running turns may go on after SIGTERM; then they are stored as incomplete."""
    keepalive: Seconds = 15.0
    """Between comments on a silent stream."""
    client_patience: Seconds = 120.0
    """A client that takes nothing for so long, or is gone without a word, is cut off."""
    connections_max: PositiveInt = 2048
    """HTTP connections at once, and never more than half of the files that the process may open. For one more, the one
    that was idle longest is closed, of the address that has most; where none is idle, the new one gets 503."""
    stream_replay: PositiveInt = 256
    """Ended streams that are kept for clients that come back for the rest."""
    replay_bytes: PositiveInt = 64 * 1024 * 1024
    """Bytes that these may take together; the oldest give way."""
    commands_on_openai_api: bool = False
    """Whether slash commands are obeyed on the OpenAI API too, and not only on chat faces."""
    mirrors: bool = True
    """Whether each session is also kept as a file of JSON lines, for people and tools to read."""


class WarmSettings(Struct, frozen=True, kw_only=True):
    """A key whose seats are kept ready from the start on."""

    model: str
    """An alias of `[models]`, or `provider/model`."""
    cwd: str | None = None
    """Where its agents work; None: the default directory."""
    seats: PositiveInt = 1
    """How many seats, each an opened session that nobody has yet."""


class PoolSection(Struct, frozen=True, kw_only=True):
    """The processes."""

    enabled: bool = True
    """false: every session gets a process of its own. `OSTLER_TRANSPORT_POOL_ENABLED` sets it too, and wins."""
    max_processes: PositiveInt = 8
    """Agent processes at once, of all keys together."""
    max_processes_per_key: PositiveInt = 3
    """Of those, how many one (provider, model, directory) may have."""
    max_queue: PositiveInt = 1000
    """Turns that may wait for a seat; one more is 429."""
    idle_after: Seconds = 900.0
    """A process without sessions for so long ends, unless it is kept warm."""
    max_age: Seconds = 6 * 3600.0
    """A process is replaced at about this age; its successor is up before it goes."""
    memory_budget: PositiveInt | None = None
    """Bytes of memory for all agent processes and what they started, at least 256 MiB: as much as a process counts for
    until it was measured. None: no budget."""
    claim_deadline: Seconds = 120.0
    """How long a turn may wait for a seat; then it is refused."""
    share: str = "auto"
    """Whose sessions may be in one agent process: all, or owner (those of one key, or of one person on chat faces).
    auto: owner where there is more than one key, else all. With owner, processes that are kept ready are nobody's until
    the first session of an owner takes one, and each active owner takes memory of its own."""
    fallback: bool = True
    """After a failed start, try once more with a process of the session's own."""
    start_late_after: Seconds = 25.0
    """A start that takes longer, and longer than its provider's others, turns `/readyz` red before it has failed. To be
    raised where agents need more for their first start."""
    compile_cache: bool = True
    """Agents on Node 22 or later, and what they run on it, keep their compiled code in the data folder (`compiled`),
    and start with a fifth less work; others take no notice."""
    prewarm: bool = False
    """Keep a seat of the default model ready from the start on."""
    warm: list[WarmSettings] = field(default_factory=list)
    """Keys whose seats are kept ready, as `[[pool.warm]]`."""
    roots: list[str] = field(default_factory=list)
    """Directories that agents may work below, besides the default directory; empty: any."""
    permissions: str = "workspace"
    """What agents may do: auto (everything), workspace (edits inside their directory, and commands that the agent's own
    sandbox holds there; beyond that a person on a chat face is asked, and API clients hear no), ask (a person, by the
    API or on a chat face, decides everything) or deny (nothing that needs permission). allow is an old name of auto. An
    agent that cannot be held to its level is refused: `docs/agents.md` has a table."""
    model_permissions: dict[str, str] = field(default_factory=dict)
    """The same for `provider/model` or `provider/*`; `{"hermes-acp/*" = "auto"}` is how an agent that cannot be held to
    anything is allowed."""
    permission_deadline: Seconds = 300.0
    """How long a person may take to answer; then the answer is no."""
    open_requests: PositiveInt = 64
    """Questions and tool calls of one session's agent that may wait for their answers at once; one more is refused with
    an error that the agent reads. To be raised for agents that run more tools at once."""


class ProviderSection(Struct, frozen=True, kw_only=True):
    """One provider as this gateway uses it; what is not set here is the provider's own."""

    command: list[str] | None = None
    """The program and its first arguments, instead of what is found on PATH. The provider `acp` needs it."""
    args: list[str] = field(default_factory=list)
    """More arguments, behind the provider's own."""
    env: dict[str, str] = field(default_factory=dict)
    """Environment of the agent, on top of the provider's own; never printed."""
    pass_env: list[str] = field(default_factory=list)
    """Names let through from the gateway's environment, besides those that the provider names."""
    prefix: list[str] = field(default_factory=list)
    """What agents are started under, in front of their own command: a sandbox or a scope, as `["bwrap", ...]` or
    `["systemd-run", "--user", "--scope"]`."""
    rlimits: dict[str, Amount] = field(default_factory=dict)
    """Limits of each of their processes, called as by setrlimit: `{nofile = 4096, core = 0}`. A prefix that forks may
    have started the agent before they hold. `as` counts addresses, of which Node takes many: a scope limits memory."""
    home: str | None = None
    """HOME of the agents, an absolute path; None: the gateway's."""
    approval: str | None = None
    """Who is asked before an agent acts: ask (the gateway, which answers by the permission level), auto (nobody: only
    the level auto can then be kept), agent (as its own configuration says). None: ask, where the agent can."""
    commands: bool = False
    """Whether a text that begins with a slash may be a command of the agent itself (`/init`, `/compact`, `/logout`),
    and `@name` a file that it reads in unasked. false: they are sent as plain text."""
    tool_channel: str | None = None
    """How its agents reach tools: relay, http, acp or dynamic_tools, as far as the provider has them."""
    start_deadline: Seconds | None = None
    """From the start of a process to its answered handshake."""
    open_deadline: Seconds | None = None
    """For the agent to open or load a session."""


class KeySettings(Struct, frozen=True, kw_only=True):
    """One API key, known by its digest only."""

    name: str
    """Its owner; sessions of different owners never see each other."""
    sha256: str
    """64 lowercase hex digits; `ostler key new NAME` makes a key and prints this."""
    models: list[str] = field(default_factory=list)
    """`provider/model` or `provider/*`; empty: all."""
    admin: bool = False
    """Whether this key may take up every session on chat faces, and see and steer the pool."""
    permissions: str | None = None
    """What agents may do for this key: auto, workspace, ask or deny; with a level for the model, the narrower of the
    two."""
    roots: list[str] = field(default_factory=list)
    """Directories that this key's agents may work below; empty: those of `pool.roots`."""
    concurrency: PositiveInt | None = None
    """Requests that it may have running; None: `auth.concurrency`."""
    per_minute: PositiveInt | None = None
    """Requests in a minute; None: `auth.per_minute`."""


class AuthSettings(Struct, frozen=True, kw_only=True):
    """Who may ask."""

    api_key: str | None = None
    """One key for a person on their own machine; `OSTLER_API_KEY` sets it too. It is not an operator's."""
    keys: list[KeySettings] = field(default_factory=list)
    """Keys of several people, as `[[auth.keys]]`."""
    key_file: str | None = None
    """A file of its owner alone with more `[[keys]]`; None: `keys.toml` in the data folder, if there is one."""
    allowed_hosts: list[str] = field(default_factory=list)
    """Host names besides the loopback ones that a gateway without keys answers to."""
    cors_origins: list[str] = field(default_factory=list)
    """Origins whose pages may call the API from a browser."""
    concurrency: PositiveInt = 64
    """Requests that one key may have running."""
    per_minute: PositiveInt = 6000
    """Requests that one key may make in a minute."""


class ToolSettings(Struct, frozen=True, kw_only=True):
    """Tools that sessions get besides those of their clients."""

    own: list[str] = field(default_factory=list)
    """Names or patterns of the gateway's own tools (`["*"]`: all). With none of them and no server, agents that were
    given no function of a client get no tool server at all."""
    mcp: dict[str, dict[str, Any]] = field(default_factory=dict)
    """`[tools.mcp.<name>]`: tool servers, with `command` or `url` and what `bridge/upstreams/settings.py` lists."""
    http_port: Port = 0
    """Of the HTTP tool channel on loopback, which runs where a provider's `tool_channel` is http; 0: any free one."""
    call_deadline: Seconds = 3600.0
    """How long one call of a tool may take."""


class HindsightSettings(Struct, frozen=True, kw_only=True):
    """The memory provider `hindsight`: a Hindsight server."""

    url: str = "http://127.0.0.1:8888"
    """Of the server."""
    api_key: str | None = None
    """Its key, if it wants one."""
    bank: str = "ostler"
    """Banks are named after it, one for each user."""
    retain_every: PositiveInt = 3
    """Turns of a session that are sent together."""
    timeout: Seconds = 60.0
    """For one request to it."""


class HonchoSettings(Struct, frozen=True, kw_only=True):
    """The memory provider `honcho`: a Honcho server."""

    url: str = "http://127.0.0.1:8000"
    """Of the server."""
    api_key: str | None = None
    """Its key, if it wants one."""
    workspace: str = "ostler"
    """The workspace on that server."""
    timeout: Seconds = 60.0
    """For one request to it."""


class MemorySettings(Struct, frozen=True, kw_only=True):
    """What is remembered from one conversation to the next."""

    enabled: bool = True
    """false: nothing is remembered and nothing recalled."""
    providers: list[str] = field(default_factory=lambda: ["embedded"])
    """In the order in which they are called: embedded, hindsight, honcho, or one of another package."""
    openai_api: bool = False
    """Whether conversations of the OpenAI API have a memory too, as those of chat faces do. Its clients mostly keep one
    of their own, and the tools of memory cost each session the process of a tool server."""
    prefetch: Seconds = 8.0
    """How long a turn waits for what they recall."""
    drain: Seconds = 5.0
    """How long the end of the gateway waits for what they still have to write down."""
    recall_chars: PositiveInt = 4000
    """How much of it is put before a message."""
    hindsight: HindsightSettings = field(default_factory=HindsightSettings)
    """For the provider `hindsight`."""
    honcho: HonchoSettings = field(default_factory=HonchoSettings)
    """For the provider `honcho`."""
    options: dict[str, dict[str, str]] = field(default_factory=dict)
    """For providers of other packages, by their names; never printed."""


class ResetOverride(Struct, frozen=True, kw_only=True):
    """What is different on one platform; what is not set here is as in `[resets]`."""

    mode: str | None = None
    """none, idle, daily, or both."""
    idle: Age | None = None
    """Seconds without a message after which a session is over."""
    at_hour: Hour | None = None
    """The hour at which yesterday's sessions are over."""
    notify: bool | None = None
    """Whether the first answer afterwards says so."""


class ResetSettings(Struct, frozen=True, kw_only=True):
    """When a conversation on a chat face begins anew by itself."""

    mode: str = "none"
    """none, idle, daily, or both."""
    idle: Age = 1440 * 60.0
    """Seconds without a message after which a session is over."""
    at_hour: Hour = 4
    """The hour at which yesterday's sessions are over."""
    timezone: str = ""
    """As in Europe/Berlin; empty: that of the machine."""
    notify: bool = True
    """Whether the first answer afterwards says so."""
    check_every: Seconds = 60.0
    """How often sessions are looked for that are over and have no new message."""
    platforms: dict[str, ResetOverride] = field(default_factory=dict)
    """Other words for one platform, as `[resets.platforms.<name>]`."""


class RetentionSettings(Struct, frozen=True, kw_only=True):
    """How long text is kept that nobody asks for. Looked after as often as `resets.check_every` says."""

    unreachable: Age = 30 * 86400.0
    """Seconds after its last turn until a session of the API is deleted that no request can name any more: its
    conversation was deleted or it never had one, and its responses are gone. One with `store: false` is erased
    `gateway.seat_idle` after its last turn."""
    ended: Age | None = None
    """The same for ended sessions of chat faces, to which `/resume` no longer leads then. None: they are kept until
    `ostler sessions prune` or `erase`."""


class LogSettings(Struct, frozen=True, kw_only=True):
    """What is written to stderr."""

    level: str = "info"
    """The least that is written."""
    format: str = "text"
    """text or json."""
    levels: dict[str, str] = field(default_factory=dict)
    """Levels of single loggers, by name: `"ostler.pool" = "debug"`."""
    redact: list[str] = field(default_factory=list)
    """Regular expressions; what matches is never written. The configured secrets are covered already."""


class MetricsSettings(Struct, frozen=True, kw_only=True):
    """What is counted, and who may read it."""

    enabled: bool = True
    """false: nothing is counted, and there is no `/metrics`."""
    token: str | None = None
    """Opens `/metrics` and nothing else. Without it whoever may use the gateway may read them."""
    places: dict[str, str] = field(default_factory=dict)
    """Short names for directories, `name = "/path"`: only these ever stand in a label."""
    otlp_endpoint: str | None = None
    """Where to send traces of turns, for example `http://127.0.0.1:4318/v1/traces`; needs
    `pip install opentelemetry-sdk opentelemetry-exporter-otlp-proto-http`."""


class Settings(Struct, frozen=True, kw_only=True):
    """The whole of it."""

    gateway: GatewaySettings = field(default_factory=GatewaySettings)
    pool: PoolSection = field(default_factory=PoolSection)
    providers: dict[str, ProviderSection] = field(default_factory=dict)
    models: dict[str, str] = field(default_factory=dict)
    auth: AuthSettings = field(default_factory=AuthSettings)
    tools: ToolSettings = field(default_factory=ToolSettings)
    memory: MemorySettings = field(default_factory=MemorySettings)
    resets: ResetSettings = field(default_factory=ResetSettings)
    retention: RetentionSettings = field(default_factory=RetentionSettings)
    log: LogSettings = field(default_factory=LogSettings)
    metrics: MetricsSettings = field(default_factory=MetricsSettings)


RULES = ("auto", "workspace", "ask", "deny", "allow")
"""Permission levels; the last is an old name of the first."""
CHOICES: dict[str, tuple[str, ...]] = {
    "gateway.on_disconnect": ("cancel", "continue"),
    "pool.share": ("auto", "all", "owner"),
    "log.level": ("debug", "info", "warning", "error"),
    "log.format": ("text", "json"),
}


def shown(value: Any, key: str = "") -> Any:
    """The same value with every secret replaced."""
    match value:
        case _ if key in SECRET and value:
            return "(secret)"
        case Struct():
            return {name: shown(part, name) for name, part in asdict(value).items()}
        case dict():
            return {name: shown(part, name) for name, part in value.items()}
        case list():
            return [shown(_unsaid(part, before)) for before, part in pairwise(["", *value])]
        case str() if URL.match(value):
            return TOLD.sub("(secret)", value)
        case _:
            return value


def _unsaid(word: Any, before: Any) -> Any:
    """A word of a command, unless it is a secret: the value of something that is called like one."""
    if not isinstance(word, str) or not isinstance(before, str):
        return word
    option = TELLS.match(before) if before.startswith("-") or VARIABLE.match(before) else None
    if option and not option["value"] and not word.startswith("-"):
        return "(secret)"
    told = TELLS.match(word)
    return f"{told['name']}{told['sign']}(secret)" if told and told["value"] else word
