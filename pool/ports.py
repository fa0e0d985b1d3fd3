"""What the pool needs of the outside, as protocols. The gateway introduces the real ones (`gateway/server/app.py`).

Rules:
- The pool never imports the bridge; the bridge's `Bridge` and `Binding` satisfy `ToolPort` and `ToolTicket` by shape.
- Tool definitions are plain MCP tool objects (name, description, inputSchema): both rooms can hold them without
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


@dataclass(frozen=True)
class ToolSet:
    """The tools a seat is opened with. Seats opened ahead are claimed only for the very same set."""

    definitions: tuple[JsonObject, ...] = ()
    fingerprint: str = field(init=False, default="")

    def __post_init__(self) -> None:
        if self.definitions:
            document = orjson.dumps(self.definitions, option=orjson.OPT_SORT_KEYS)
            object.__setattr__(self, "fingerprint", hashlib.sha256(document).hexdigest()[:16])

    def __hash__(self) -> int:
        return hash(self.fingerprint)


class DefinedTool(Protocol):
    """A tool with limits or a name of its own, such as the bridge's `Tool`."""

    @property
    def definition(self) -> JsonObject: ...


Tools: TypeAlias = Sequence[Callable[..., object] | DefinedTool]
"""What an embedder writes: plain functions, or tools that the tool port knows."""


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
"""Takes the result, or why there is none."""


class McpPipe(Protocol):
    """MCP over an agent's own pipe, one for each process: what is declared on one opens nothing on another."""

    def declare(self, ticket: Any, /) -> JsonObject:
        """The entry for the agent's list of tool servers. It is worth nothing after the ticket is revoked."""

    def request(self, outer: RpcId, method: str, params: JsonObject, answer: McpAnswer) -> None:
        """A request of the agent; answered once."""

    def notice(self, method: str, params: JsonObject) -> None:
        """A notification of the agent."""

    def close(self) -> None:
        """The process is gone: whatever it asked for is stopped."""


class ToolResult(Protocol):
    """The answer of one tool call: MCP content blocks, and whether it is an error for the model to read."""

    @property
    def content(self) -> Sequence[JsonObject]: ...
    @property
    def is_error(self) -> bool: ...


class ToolTicket(Protocol):
    """One seat's own access to its tools. Minted when the seat opens, revoked at release."""

    @property
    def token(self) -> str: ...
    @property
    def relay(self) -> RelayLaunch: ...
    @property
    def definitions(self) -> Sequence[JsonObject]: ...

    def http(self) -> HttpEndpoint | None:
        """This seat's place on the HTTP channel, the same each time; None when no such channel runs."""

    def pipe(self, tell: Callable[[str, JsonObject], None]) -> McpPipe:
        """A fresh pipe for a process that has none yet; `tell` sends a notification to the agent."""

    def owned_by(self, owner: Any) -> None:
        """Only descendants of this process (an `Identity`) may use the token."""

    def witnessed_by(self, agent_session: str) -> None:
        """The agent's own id of the session: a call that states another one is refused."""

    async def attached(self) -> None:
        """Returns when the agent has come, by any channel, and was told the tools; raises when it can come no more. The
        caller adds the deadline."""

    async def call(self, name: str, arguments: JsonObject, *, call_id: str) -> ToolResult:
        """A call by a channel without relay (the agent names the session itself)."""

    def publish(self, definitions: Sequence[JsonObject], dispatcher: Any, context: object = None) -> None:
        """From now on these are the tools, and calls reach this dispatcher (of a `ToolOffer`)."""

    def on_definitions(self, listener: Callable[[], None]) -> None:
        """Called after the definitions changed."""

    def on_gone(self, listener: Callable[[], None]) -> None:
        """Called once when the agent can reach these tools no more, because its relay is gone for good; at once when
        it already is. The ticket is worth nothing from then on. Other channels end with their process only."""

    def revoke(self) -> None:
        """End of the seat: the token is worth nothing from here on. Idempotent."""

    def dismiss(self) -> None:
        """After `revoke`: the agent has closed the session, or never will, so its relay need not wait for that."""


class ToolPort(Protocol):
    """Where tickets come from."""

    def open(self, definitions: Sequence[JsonObject]) -> ToolTicket: ...

    def offer(self, tools: Tools) -> ToolOffer:
        """The tools of one lease. Raises where one of them cannot be a tool."""


@dataclass(frozen=True, slots=True)
class PermissionChoice:
    """One decision: the id of an option (None cancels the request), and who or what decided."""

    option: str | None
    by: str


class PermissionPolicy(Protocol):
    """Decides what an agent may do."""

    def __call__(self, session_id: str, asked: PermissionAsked, /) -> Awaitable[PermissionChoice]: ...
