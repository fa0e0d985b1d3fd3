"""What the pool needs from outside, as protocols. The gateway connects the real ones (`gateway/server/app.py`).

Rules:
- The pool never imports the bridge; the bridge's `Bridge` and `Binding` satisfy `ToolPort` and `ToolTicket` by shape.
- Tool definitions are plain MCP tool objects (name, description, inputSchema): both packages can hold them without
  knowing each other.
"""

import hashlib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

import orjson

from ostler.pool.events import PermissionAsked
from ostler.wire.json import JsonObject
from ostler.wire.rpc import RpcFault, RpcId


@dataclass(frozen=True, eq=False)
class ToolSet:
    """The tools a seat is opened with. A seat opened ahead is granted only for exactly the same set.

    Sets of one fingerprint are equal: the pool compares sets at every claim, and definitions may be long.
    """

    definitions: tuple[JsonObject, ...] = ()
    fingerprint: str = field(init=False, default="")

    def __post_init__(self) -> None:
        if self.definitions:
            document = orjson.dumps(self.definitions, option=orjson.OPT_SORT_KEYS)
            object.__setattr__(self, "fingerprint", hashlib.sha256(document).hexdigest()[:16])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ToolSet) and self.fingerprint == other.fingerprint

    def __hash__(self) -> int:
        return hash(self.fingerprint)

    def __str__(self) -> str:
        return self.fingerprint or "empty"


class DefinedTool(Protocol):
    """A tool with limits or a name of its own, such as the bridge's `Tool`."""

    @property
    def definition(self) -> JsonObject: ...


Tools: TypeAlias = Sequence[Callable[..., object] | DefinedTool]
"""The tools an embedder passes: plain functions, or tools that the tool port knows."""


class ToolOffer(Protocol):
    """Tools of one session, ready to be published on its ticket."""

    @property
    def definitions(self) -> Sequence[JsonObject]: ...
    @property
    def dispatcher(self) -> Any: ...


@dataclass(frozen=True, slots=True)
class ToolIdentity:
    """A process that cannot be mistaken for a later one with the same pid."""

    pid: int
    start_time: int
    """Clock ticks since boot, field 22 of /proc/<pid>/stat."""


class RelayLaunch(Protocol):
    """What an agent launches as its stdio tool server. The token is in `env` only."""

    @property
    def name(self) -> str: ...
    @property
    def argv(self) -> Sequence[str]: ...
    @property
    def env(self) -> Mapping[str, str]: ...


class HttpEndpoint(Protocol):
    """Where an agent that takes HTTP tool servers finds this seat's. The token is in `headers` only."""

    @property
    def name(self) -> str: ...
    @property
    def url(self) -> str: ...
    @property
    def headers(self) -> Mapping[str, str]: ...


McpAnswer: TypeAlias = Callable[[JsonObject | RpcFault], None]
"""Called with the result, or with the fault if there is none."""


class McpPipe(Protocol):
    """MCP over an agent's own pipe, one for each process: an entry declared on one opens nothing on another."""

    def declare(self, ticket: Any, /) -> JsonObject:
        """The entry for the agent's list of tool servers. It is void once the ticket is revoked."""

    def request(self, outer: RpcId, method: str, params: JsonObject, answer: McpAnswer) -> None:
        """Pass on a request of the agent; `answer` is called once."""

    def notice(self, method: str, params: JsonObject) -> None:
        """Pass on a notification of the agent."""

    def close(self) -> None:
        """The process is gone: stop every call that it made."""


class ToolResult(Protocol):
    """The answer of one tool call: MCP content blocks, and whether it is an error for the model to read."""

    @property
    def content(self) -> Sequence[JsonObject]: ...
    @property
    def is_error(self) -> bool: ...


class ToolTicket(Protocol):
    """One seat's own access to its tools. Issued when the seat opens, revoked at release."""

    @property
    def token(self) -> str: ...
    @property
    def relay(self) -> RelayLaunch: ...
    @property
    def definitions(self) -> Sequence[JsonObject]: ...

    def http(self) -> HttpEndpoint | None:
        """This seat's endpoint on the HTTP channel, the same each time; None when no such channel runs."""

    def pipe(self, tell: Callable[[str, JsonObject], None]) -> McpPipe:
        """A new pipe for a process that has none yet; `tell` sends a notification to the agent."""

    def owned_by(self, owner: Any) -> None:
        """Restrict the token to descendants of this process (a `ToolIdentity`)."""

    def witnessed_by(self, agent_session: str) -> None:
        """Set the agent's own id of the session: a call that states another one is refused."""

    async def attached(self) -> None:
        """Return when the agent has connected, by any channel, and has been told the tools; raise when it can connect
        no more. The caller adds the deadline.
        """

    async def call(self, name: str, arguments: JsonObject, *, call_id: str) -> ToolResult:
        """Call a tool over a channel without relay (the agent names the session itself)."""

    def publish(self, definitions: Sequence[JsonObject], dispatcher: Any, context: object = None) -> None:
        """Replace the tools; from now on calls reach this dispatcher (of a `ToolOffer`)."""

    def on_definitions(self, listener: Callable[[], None]) -> None:
        """Register a listener that is called after the definitions changed."""

    def on_gone(self, listener: Callable[[], None]) -> None:
        """Register a listener that is called once when the agent can no longer reach these tools, because its relay is
        gone for good; at once if it already is. The ticket is void from then on. Other channels end only with their
        process.
        """

    def revoke(self) -> None:
        """Called at the end of the seat: the token is void from here on. Idempotent."""

    def dismiss(self) -> None:
        """Called after `revoke`, when the agent has closed the session or never will: its relay need not wait for
        that.
        """


class ToolPort(Protocol):
    """Issues the tickets; the bridge implements it."""

    def open(self, definitions: Sequence[JsonObject]) -> ToolTicket: ...

    def offer(self, tools: Tools) -> ToolOffer:
        """Check the tools of one lease. Raises if one of them cannot be a tool."""


@dataclass(frozen=True, slots=True)
class PermissionChoice:
    """One decision: the id of an option (None cancels the request), and who or what decided."""

    option: str | None
    by: str


class PermissionPolicy(Protocol):
    """Decides what an agent may do; called once for each permission request."""

    def __call__(self, session_id: str, asked: PermissionAsked, /) -> Awaitable[PermissionChoice]: ...
