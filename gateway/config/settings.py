"""The settings, section by section, with their defaults. Values only. `make reference` writes docs/configuration.md
from this file, so the string under a field is the operator's manual.

Rules:
- A field's name is its key in `ostler.toml` and, in capitals, in `OSTLER_<SECTION>__<KEY>`.
- Units are seconds, bytes and counts. A limit is above zero; no value means unlimited.
- Every secret is named in `SECRET` and is never printed; nor are the user, password and query of a URL.
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
"""A URL as a whole value, or as the value of an option or a variable in a command."""
TOLD = re.compile(r"(?<=://)[^/?#]*(?=@)|(?<=\?).+")
"""The user and password of a URL, and its query."""
TELLS = re.compile(
    r"(?P<name>[\w=-]*?(?:key|token|secret|password|authorization))(?:(?P<sign>=|:\s*)(?P<value>.+))?$",
    re.IGNORECASE | re.DOTALL,
)
"""An option, a variable or a header whose name sounds like a secret, with its value; or such an option whose value
follows."""
VARIABLE = re.compile(r"[A-Z][A-Z0-9_]*$")
"""A variable's name, also where its value is the next word."""


class GatewaySettings(Struct, frozen=True, kw_only=True):
    """The server, and the limits of the sessions it serves."""

    host: str = "127.0.0.1"
    """The address to listen on. Any address except loopback needs an API key (see `[auth]`)."""
    port: Port = 8787
    """The TCP port to listen on. 0 takes any free one."""
    uds: str | None = None
    """Path of a unix socket to listen on instead of `host` and `port`."""
    body_limit: PositiveInt = 10 * 1024 * 1024
    """The most bytes that a request's body may have; a larger one is answered with 413. Raise it if clients send large
    images or files inline."""
    body_values: PositiveInt = 100_000
    """The most JSON values (objects, arrays, strings, numbers) in a request's body; more is answered with 413. A body
    of 10 MiB can hold 5 million tiny values, and decoding them would block all clients for seconds."""
    items_max: PositiveInt = 4_000
    """The most input items, messages and content parts of one request together; more is answered with 400. Longer
    conversations can be kept by the gateway: the client names a `conversation` or a `previous_response_id` and sends
    only what is new."""
    body_timeout: Seconds = 30.0
    """A request whose body makes no progress for this many seconds, or arrives slower than 1 KiB/s over that time, is
    answered with 408."""
    default_model: str = "demo/demo"
    """The model of requests that name none: an alias of `[models]`, `provider/model`, or a provider."""
    default_cwd: str | None = None
    """The working directory of agents when a request names none; it must exist. None: `work/` in the data folder, which
    the gateway creates."""
    responses_max: PositiveInt = 10_000
    """The most stored responses that clients can read again or continue from; the oldest are deleted first. Raise it if
    clients return to old responses; each takes space in the database."""
    seats_max: PositiveInt = 64
    """The most seats that sessions hold at once. At the limit, the least recently used seat of a session without a
    running turn is released first."""
    seat_idle: Seconds = 900.0
    """Seconds without a turn after which a session releases its seat. Its next turn takes another seat and gives it the
    history. Lower it to free agents sooner; raise it if users pause for long and the next answer must start at once."""
    sessions_max: PositiveInt = 10_000
    """The most sessions kept in memory; the others are read from the store when a request needs them."""
    queue_max: PositiveInt = 16
    """The most turns that may wait for one session; one more is answered with 429."""
    turn_inactivity: Seconds = 900.0
    """Seconds without any event from the agent after which a turn fails. Time spent waiting for a tool or a permission
    does not count."""
    turn_limit: Seconds | None = None
    """The most seconds that a whole turn may take. None: no limit."""
    answer_room: PositiveInt = 8 * 1024 * 1024
    """The approximate memory, in bytes, that one answer may take, its text counted four times. Beyond it the turn is
    stopped and the answer is incomplete (`max_output_tokens`)."""
    answer_items: PositiveInt = 10_000
    """The most output items of one answer: messages, thoughts, tool calls, plans, questions. Beyond it the turn is
    stopped and the answer is incomplete (`max_output_items`)."""
    client_tool_deadline: Seconds = 600.0
    """Seconds that a client may take to answer a function call."""
    call_gather: Seconds = 0.05
    """Seconds to wait for further parallel function calls before the response ends and hands them to the client. Raise
    it if parallel calls of an agent arrive in separate responses."""
    on_disconnect: str = "cancel"
    """What happens to a foreground turn whose client disconnects: `cancel`, or `continue`. A request may override it;
    the chat page does, so its turns continue until the user presses Stop."""
    drain: Seconds = 20.0
    """Seconds that running turns may go on after SIGTERM; after that they are stored as incomplete."""
    keepalive: Seconds = 15.0
    """Seconds of silence on a stream before a comment is sent, so that proxies do not close it."""
    client_patience: Seconds = 120.0
    """Seconds after which a client that accepts no data, or has vanished without closing its connection, is
    disconnected."""
    connections_max: PositiveInt = 2048
    """The most HTTP connections at once, and never more than half of the files that the process may open. At the limit,
    the longest idle connection of the address with the most connections is closed; if none is idle, the new one is
    answered with 503."""
    stream_replay: PositiveInt = 256
    """The number of ended streams kept for clients that reconnect and ask for the rest."""
    replay_bytes: PositiveInt = 64 * 1024 * 1024
    """The most bytes that these streams may take together; the oldest are dropped first."""
    commands_on_openai_api: bool = False
    """Whether slash commands also work on the OpenAI API, and not only on chat surfaces."""
    mirrors: bool = True
    """Whether each session is also written to a file of JSON lines, for people and tools to read."""


class WarmSettings(Struct, frozen=True, kw_only=True):
    """A pool key (model and directory) whose seats are kept ready from the start."""

    model: str
    """An alias of `[models]`, or `provider/model`."""
    cwd: str | None = None
    """The working directory of its agents. None: the default directory."""
    seats: PositiveInt = 1
    """The number of seats to keep ready; each is an opened agent session that no chat session uses yet."""


class PoolSection(Struct, frozen=True, kw_only=True):
    """The agent processes, and how sessions share them."""

    enabled: bool = True
    """false: every session gets a process of its own. `OSTLER_TRANSPORT_POOL_ENABLED` overrides it."""
    max_processes: PositiveInt = 8
    """The most agent processes at once, over all keys."""
    max_processes_per_key: PositiveInt = 3
    """The most agent processes of one key (provider, model, directory)."""
    max_queue: PositiveInt = 1000
    """The most turns that may wait for a seat; one more is answered with 429."""
    idle_after: Seconds = 900.0
    """Seconds without a session after which a process ends, unless it is kept warm. Lower it to free memory sooner."""
    max_age: Seconds = 6 * 3600.0
    """Seconds after which a process is replaced, approximately. Its successor is ready before it ends."""
    memory_budget: PositiveInt | None = None
    """The most bytes of memory for all agent processes and their children; at least 256 MiB, which is what a process
    counts for until it was measured. None: no budget."""
    claim_deadline: Seconds = 120.0
    """The most seconds that a turn waits for a seat; after that it is refused."""
    share: str = "auto"
    """Which sessions may share an agent process: `all`, or `owner` (only those of one API key, or of one person on chat
    surfaces). `auto`: `owner` if there is more than one key, else `all`. With `owner`, a process that is kept ready
    belongs to no owner until the first session of one takes it, and each active owner needs memory for processes of its
    own."""
    fallback: bool = True
    """Whether a session whose shared process failed to start tries once more with a process of its own."""
    start_late_after: Seconds = 25.0
    """Seconds after which a start that is still running turns `/readyz` red, if it also takes longer than other starts
    of its provider. Raise it if agents need longer for their first start."""
    compile_cache: bool = True
    """Whether agents on Node 22 or later, and the programs they run on it, keep their compiled code in the data folder
    (`compiled`). Their start then needs a fifth less work; other agents ignore it."""
    prewarm: bool = False
    """Whether to keep a seat of the default model ready from the start."""
    warm: list[WarmSettings] = field(default_factory=list)
    """Keys whose seats are kept ready, as `[[pool.warm]]`."""
    roots: list[str] = field(default_factory=list)
    """The directories below which agents may work, besides the default directory. Empty: any directory."""
    permissions: str = "workspace"
    """What agents may do. `auto`: everything. `workspace`: edits inside their directory, and commands that the agent's
    own sandbox confines there; for anything else a person on a chat surface is asked, and API clients get a refusal.
    `ask`: a person decides everything, by the API or on a chat surface. `deny`: nothing that needs permission. `allow`
    is an old name of `auto`. An agent that cannot be held to its level is refused; the table in `docs/agents.md` lists
    which can."""
    model_permissions: dict[str, str] = field(default_factory=dict)
    """Permission levels by `provider/model` or `provider/*`. Use `{"hermes-acp/*" = "auto"}` to allow an agent that
    cannot be held to any level."""
    permission_deadline: Seconds = 300.0
    """Seconds that a person may take to answer a permission request; after that it is refused."""
    open_requests: PositiveInt = 64
    """The most questions and tool calls of one session's agent that may wait for answers at once; one more is refused
    with an error that the agent reads. Raise it for agents that run more tools in parallel."""


class ProviderSection(Struct, frozen=True, kw_only=True):
    """One provider as this gateway uses it. Keys that are not set keep the provider's own values."""

    command: list[str] | None = None
    """The program and its first arguments, instead of the program found on PATH. The provider `acp` needs it."""
    args: list[str] = field(default_factory=list)
    """Arguments to add after the provider's own."""
    env: dict[str, str] = field(default_factory=dict)
    """Environment variables of the agent, in addition to the provider's own; never printed."""
    pass_env: list[str] = field(default_factory=list)
    """Variables to pass on from the gateway's environment, in addition to those that the provider names."""
    prefix: list[str] = field(default_factory=list)
    """A command to start agents under, such as a sandbox or a scope: `["bwrap", ...]` or `["systemd-run", "--user",
    "--scope"]`."""
    rlimits: dict[str, Amount] = field(default_factory=dict)
    """Limits of each agent process, named as by setrlimit: `{nofile = 4096, core = 0}`. If `prefix` forks, the agent
    may have started before they apply. `as` limits address space, of which Node reserves much more than it uses: to
    limit memory, use a scope as `prefix`."""
    home: str | None = None
    """HOME of the agents, an absolute path. None: the gateway's."""
    approval: str | None = None
    """Who decides when an agent wants to act. `ask`: the gateway, by the permission level. `auto`: the agent acts
    without asking, so only the level `auto` can be enforced. `agent`: the agent's own configuration. None: `ask`, if
    the agent supports it."""
    commands: bool = False
    """Whether text that begins with a slash may run a command of the agent itself (`/init`, `/compact`, `/logout`), and
    `@name` a file that it reads without asking. false: both are sent as plain text."""
    tool_channel: str | None = None
    """How agents reach tools: `relay`, `http`, `acp` or `dynamic_tools`, if the provider supports it. None: the
    provider's choice."""
    start_deadline: Seconds | None = None
    """Seconds from the start of a process to its answered handshake. Raise it on slow machines. None: the pool's
    default."""
    open_deadline: Seconds | None = None
    """Seconds that the agent may take to open or load a session. None: the pool's default."""
    spares: Amount = 0
    """Started processes of each model in use that wait for a directory no request has named yet; the first session in a
    new directory takes one. Each costs the memory of an idle agent. 0: that session waits for a start."""


class KeySettings(Struct, frozen=True, kw_only=True):
    """One API key, stored as a digest only."""

    name: str
    """The owner of the key. Sessions of different owners never see each other."""
    sha256: str
    """64 lowercase hex digits; `ostler key new NAME` creates a key and prints its digest."""
    models: list[str] = field(default_factory=list)
    """The models that the key may use, as `provider/model` or `provider/*`. Empty: all."""
    admin: bool = False
    """Whether this key may take up every session on chat surfaces, and see and control the pool."""
    permissions: str | None = None
    """What agents may do for this key: `auto`, `workspace`, `ask` or `deny`. If the model has a level too, the narrower
    one applies. None: the level of the model."""
    roots: list[str] = field(default_factory=list)
    """The directories below which this key's agents may work. Empty: those of `pool.roots`."""
    concurrency: PositiveInt | None = None
    """The most requests that the key may have running at once. None: `auth.concurrency`."""
    per_minute: PositiveInt | None = None
    """The most requests of the key per minute. None: `auth.per_minute`."""


class AuthSettings(Struct, frozen=True, kw_only=True):
    """API keys, and the limits of each."""

    api_key: str | None = None
    """One key, for a person on their own machine; `OSTLER_API_KEY` sets it too. It has no admin rights."""
    keys: list[KeySettings] = field(default_factory=list)
    """Keys of several people or programs, as `[[auth.keys]]`."""
    key_file: str | None = None
    """A file with more `[[keys]]`, which only its owner can read. None: `keys.toml` in the data folder, if it
    exists."""
    allowed_hosts: list[str] = field(default_factory=list)
    """Host names, besides the loopback ones, that a gateway without keys answers to."""
    cors_origins: list[str] = field(default_factory=list)
    """Origins whose pages may call the API from a browser."""
    concurrency: PositiveInt = 64
    """The most requests that one key may have running at once."""
    per_minute: PositiveInt = 6000
    """The most requests that one key may make per minute."""


class ToolSettings(Struct, frozen=True, kw_only=True):
    """Tools that sessions get in addition to those of their clients."""

    own: list[str] = field(default_factory=list)
    """Names or patterns of the gateway's own tools to offer (`["*"]`: all). If there are none and no `mcp` server, an
    agent whose client declares no function gets no tool server at all."""
    mcp: dict[str, dict[str, Any]] = field(default_factory=dict)
    """`[tools.mcp.<name>]`: MCP tool servers, each with `command` or `url` and the keys that
    `bridge/upstreams/settings.py` lists."""
    http_port: Port = 0
    """The port of the HTTP tool channel on loopback, which runs if a provider's `tool_channel` is `http`. 0: any free
    port."""
    call_deadline: Seconds = 3600.0
    """The most seconds that one tool call may take."""


class HindsightSettings(Struct, frozen=True, kw_only=True):
    """The memory provider `hindsight`: a Hindsight server."""

    url: str = "http://127.0.0.1:8888"
    """The address of the Hindsight server."""
    api_key: str | None = None
    """The server's API key, if it needs one."""
    bank: str = "ostler"
    """The prefix of the names of memory banks; each user has one bank."""
    retain_every: PositiveInt = 3
    """The number of turns of a session that are sent together."""
    timeout: Seconds = 60.0
    """The most seconds that one request to the server may take."""


class HonchoSettings(Struct, frozen=True, kw_only=True):
    """The memory provider `honcho`: a Honcho server."""

    url: str = "http://127.0.0.1:8000"
    """The address of the Honcho server."""
    api_key: str | None = None
    """The server's API key, if it needs one."""
    workspace: str = "ostler"
    """The name of the workspace on that server."""
    timeout: Seconds = 60.0
    """The most seconds that one request to the server may take."""


class MemorySettings(Struct, frozen=True, kw_only=True):
    """What is remembered from one conversation to the next."""

    enabled: bool = True
    """false: nothing is remembered and nothing is recalled."""
    providers: list[str] = field(default_factory=lambda: ["embedded"])
    """Memory providers in the order in which they are called: `embedded`, `hindsight`, `honcho`, or one of another
    package."""
    openai_api: bool = False
    """Whether conversations of the OpenAI API have a memory too, as those of chat surfaces do. Off by default: most of
    its clients keep a memory of their own, and the memory tools cost each session the process of a tool server."""
    prefetch: Seconds = 8.0
    """The most seconds that a turn waits for recalled memories."""
    drain: Seconds = 5.0
    """The most seconds that the gateway, when it stops, waits for memories that are still to be written."""
    recall_chars: PositiveInt = 4000
    """The most characters of recalled memories put before a message."""
    hindsight: HindsightSettings = field(default_factory=HindsightSettings)
    """Settings of the provider `hindsight`."""
    honcho: HonchoSettings = field(default_factory=HonchoSettings)
    """Settings of the provider `honcho`."""
    options: dict[str, dict[str, str]] = field(default_factory=dict)
    """Settings for providers of other packages, by provider name; never printed."""


class ResetOverride(Struct, frozen=True, kw_only=True):
    """Different reset rules for one platform. Keys that are not set are as in `[resets]`."""

    mode: str | None = None
    """`none`, `idle`, `daily`, or `both`. None: as in `[resets]`."""
    idle: Age | None = None
    """Seconds without a message after which a session ends."""
    at_hour: Hour | None = None
    """The hour at which sessions of the day before end."""
    notify: bool | None = None
    """Whether the first answer after a reset says that the session was reset."""


class ResetSettings(Struct, frozen=True, kw_only=True):
    """When a conversation on a chat surface starts over without a command."""

    mode: str = "none"
    """`none`, `idle` (after a time without a message), `daily` (at an hour), or `both`."""
    idle: Age = 1440 * 60.0
    """Seconds without a message after which a session ends."""
    at_hour: Hour = 4
    """The hour at which sessions of the day before end."""
    timezone: str = ""
    """The time zone of `at_hour`, as in Europe/Berlin. Empty: that of the machine."""
    notify: bool = True
    """Whether the first answer after a reset says that the session was reset."""
    check_every: Seconds = 60.0
    """Seconds between checks for sessions that are over and have received no new message. Retention uses the same
    interval."""
    platforms: dict[str, ResetOverride] = field(default_factory=dict)
    """Different rules for one platform, as `[resets.platforms.<name>]`."""


class RetentionSettings(Struct, frozen=True, kw_only=True):
    """How long to keep text that no request can reach. Checked as often as `resets.check_every` says."""

    unreachable: Age = 30 * 86400.0
    """Seconds after its last turn until an API session that no request can name is deleted: its conversation was
    deleted or it never had one, and its responses are gone. A session with `store: false` is erased `gateway.seat_idle`
    after its last turn."""
    ended: Age | None = None
    """Seconds until an ended session of a chat surface is deleted; after that `/resume` cannot reopen it. None: such
    sessions are kept until `ostler sessions prune` or `erase`."""


class LogSettings(Struct, frozen=True, kw_only=True):
    """What is logged to stderr."""

    level: str = "info"
    """The lowest level that is logged: `debug`, `info`, `warning` or `error`."""
    format: str = "text"
    """The format of log lines: `text` or `json`."""
    levels: dict[str, str] = field(default_factory=dict)
    """Levels of single loggers, by name: `"ostler.pool" = "debug"`."""
    redact: list[str] = field(default_factory=list)
    """Regular expressions; text that matches is never logged. The configured secrets are covered already."""


class MetricsSettings(Struct, frozen=True, kw_only=True):
    """The metrics, and who may read them."""

    enabled: bool = True
    """false: nothing is counted, and `/metrics` does not exist."""
    token: str | None = None
    """A token that gives access to `/metrics` and nothing else. None: every caller of the gateway may read the
    metrics."""
    places: dict[str, str] = field(default_factory=dict)
    """Short names for directories, `name = "/path"`. Labels contain only these names, never other directories."""
    otlp_endpoint: str | None = None
    """Where to send traces of turns, for example `http://127.0.0.1:4318/v1/traces`; needs `pip install
    opentelemetry-sdk opentelemetry-exporter-otlp-proto-http`."""


class Settings(Struct, frozen=True, kw_only=True):
    """All settings of a gateway, one field per section."""

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
"""Permission levels; `allow` is an old name of `auto`."""
CHOICES: dict[str, tuple[str, ...]] = {
    "gateway.on_disconnect": ("cancel", "continue"),
    "pool.share": ("auto", "all", "owner"),
    "log.level": ("debug", "info", "warning", "error"),
    "log.format": ("text", "json"),
}


def shown(value: Any, key: str = "") -> Any:
    """Return the same value with every secret replaced by "(secret)"."""
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
    """Return a word of a command, or "(secret)" in place of the value of an option or variable whose name sounds like a
    secret."""
    if not isinstance(word, str) or not isinstance(before, str):
        return word
    option = TELLS.match(before) if before.startswith("-") or VARIABLE.match(before) else None
    if option and not option["value"] and not word.startswith("-"):
        return "(secret)"
    told = TELLS.match(word)
    return f"{told['name']}{told['sign']}(secret)" if told and told["value"] else word
