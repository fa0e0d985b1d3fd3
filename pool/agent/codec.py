"""The codec protocol: translates between one agent dialect and the pool's vocabulary. Sans-io.

Rules:
- A codec builds messages and reads them; it sends nothing, waits for nothing and reads no clock. There is one per
  transport, because a dialect may need state about its sessions (codex: which turn runs).
- A message of a known session that the codec cannot read becomes `Other`; without a session it becomes None. A codec
  never raises on what an agent sends, except `BadReply` for an answer that lacks what the pool needs (a session id).
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeAlias

from ostler.pool.events import AgentEvent, Finished, PermissionAsked
from ostler.pool.order import SeatOrder
from ostler.pool.ports import ToolResult
from ostler.pool.prompt import PromptCapabilities, PromptPart
from ostler.pool.provider import Level, ToolChannel
from ostler.wire.json import JsonObject
from ostler.wire.rpc import RpcFault


class BadReply(ValueError):
    """An answer of the agent lacks a value that the pool cannot do without."""


@dataclass(frozen=True, slots=True)
class AgentCall:
    """A request that the pool sends to the agent."""

    method: str
    params: JsonObject


@dataclass(frozen=True, slots=True)
class AgentNotification:
    """A notification that the pool sends to the agent."""

    method: str
    params: JsonObject


@dataclass(frozen=True, slots=True)
class AgentInfo:
    """What the agent said of itself in the handshake. A hint: the provider's declaration outranks it."""

    name: str
    version: str
    prompt: PromptCapabilities = field(default_factory=PromptCapabilities)
    loads: bool = False
    channels: frozenset[ToolChannel] = frozenset({ToolChannel.RELAY})
    """The tool channels that the agent supports."""
    closes: bool = False


@dataclass(frozen=True, slots=True)
class Opened:
    """The agent's answer that it has made, or loaded, a session."""

    session_id: str
    model: str | None = None
    mode: str | None = None


@dataclass(slots=True)
class PermissionWanted:
    """A request of the agent that the permission policy decides. `dialect` is the codec's own note on how to answer."""

    session_id: str
    asked: PermissionAsked
    dialect: str = ""


@dataclass(slots=True)
class ToolWanted:
    """A request of the agent that calls a tool without MCP (codex: `item/tool/call`)."""

    session_id: str
    call_id: str
    name: str
    arguments: JsonObject


@dataclass(slots=True)
class RefusedRequest:
    """A request of the agent that is answered with an error."""

    fault: RpcFault


AgentRequest: TypeAlias = PermissionWanted | ToolWanted | RefusedRequest
SessionUpdate: TypeAlias = tuple[str, AgentEvent]
"""The session id and the event that happened in that session."""


class Codec(Protocol):
    """Builds the requests of one agent dialect and reads its messages; one instance per transport."""

    @property
    def versioned(self) -> bool:
        """Whether messages carry the `jsonrpc` member."""

    @property
    def stale(self) -> int:
        """Events that named an earlier turn and were dropped; always 0 in a dialect whose events name no turn."""

    def hello(self) -> AgentCall:
        """The first request on a new connection."""

    def welcomed(self, result: Any) -> AgentInfo:
        """Read the answer to `hello`. Raises `BadReply` when this is not an agent of this dialect."""

    def greetings(self) -> Sequence[AgentNotification]:
        """The notifications to send after the answer to `hello`."""

    def open(self, order: SeatOrder) -> AgentCall:
        """The request that makes a new session."""

    def unarchive(self, session_id: str) -> Sequence[AgentCall]:
        """Requests to send before a load (unarchive); an error in answer means that none was needed."""

    def load(self, session_id: str, order: SeatOrder) -> AgentCall:
        """The request that restores a session which an earlier process made."""

    def opened(self, result: Any, session_id: str | None = None) -> Opened:
        """Read the answer to `open`, or to `load` of that session. Raises `BadReply`."""

    def recent_turns(self, session_id: str, turns: int) -> Sequence[AgentCall]:
        """Requests for the last turns of a loaded session; empty where the load itself repeats the conversation."""

    def replayed_events(self, result: Any) -> Sequence[AgentEvent]:
        """Read the answer to `recent_turns`: the events of those turns, the oldest first. Raises `BadReply`."""

    def set_mode(self, session_id: str, mode: str) -> Sequence[AgentCall]:
        """Requests that put a session into a mode; empty where the dialect has no modes."""

    def prompt(self, session_id: str, parts: Sequence[PromptPart], level: Level | None = None) -> AgentCall:
        """The request that starts a turn. `level`: what the agent may do, for dialects that send it per turn."""

    def replied(self, session_id: str, result: Any) -> Finished | None:
        """Read the answer to `prompt`; None when the end of the turn arrives as an event of its own."""

    def failed(self, session_id: str, fault: RpcFault) -> None:
        """Record that the prompt was answered with an error, so that no turn runs."""

    def cancel(self, session_id: str) -> AgentCall | AgentNotification | None:
        """Cancel the running turn. None while the agent cannot cancel it yet; the session asks again at each event."""

    def close(self, session_id: str, *, offered: bool) -> Sequence[AgentCall]:
        """Requests that end the session; empty when the agent has none. `offered`: the handshake announced it."""

    def forget(self, session_id: str) -> None:
        """Drop all state about this session."""

    def probe(self) -> AgentCall:
        """A request that costs the agent nothing; any answer, also an error, proves that the agent is alive."""

    def session_update(self, method: str, params: JsonObject) -> SessionUpdate | None:
        """Read a notification; None when it concerns no session."""

    def wanted(self, method: str, params: JsonObject) -> AgentRequest:
        """Read a request of the agent."""

    def carries(self, method: str) -> bool:
        """Whether a message belongs to the process's tool channel (MCP over ACP) and is no business of the codec."""

    def permission_answer(self, wanted: PermissionWanted, option: str | None) -> JsonObject:
        """The result for a permission request; `option` None cancels it."""

    def tool_answer(self, result: ToolResult) -> JsonObject:
        """The result for a tool call."""
