"""What a codec is: the translator between one agent dialect and the pool's vocabulary. Sans-io.

Rules:
- A codec decides what to say and what was said; it sends nothing, waits for nothing, knows no clock. One per transport,
  because a dialect may need to remember things about its sessions (codex: which turn runs).
- What it cannot read is `Other` in a known session and None without one; it never raises on what an agent sends,
  except `BadReply` for an answer that lacks what we cannot go on without (a session id).
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
    """An answer without what we asked for."""


@dataclass(frozen=True, slots=True)
class AgentCall:
    """A request to the agent."""

    method: str
    params: JsonObject


@dataclass(frozen=True, slots=True)
class AgentNotification:
    """A notification to the agent."""

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
    """The ways it takes tools."""
    closes: bool = False


@dataclass(frozen=True, slots=True)
class Opened:
    """The agent has made a session."""

    session_id: str
    model: str | None = None
    mode: str | None = None


@dataclass(slots=True)
class PermissionWanted:
    """A server request that our policy decides. `dialect` is the codec's own note on how to answer."""

    session_id: str
    asked: PermissionAsked
    dialect: str = ""


@dataclass(slots=True)
class ToolWanted:
    """A server request that is a tool call."""

    session_id: str
    call_id: str
    name: str
    arguments: JsonObject


@dataclass(slots=True)
class RefusedRequest:
    """A server request that gets an error."""

    fault: RpcFault


AgentRequest: TypeAlias = PermissionWanted | ToolWanted | RefusedRequest
SessionUpdate: TypeAlias = tuple[str, AgentEvent]
"""Which session, and what happened there."""


class Codec(Protocol):
    """One dialect."""

    @property
    def versioned(self) -> bool:
        """Whether messages carry the `jsonrpc` member."""

    @property
    def stale(self) -> int:
        """Events that named an earlier turn and were dropped; 0 for ever in a dialect whose events name no turn."""

    def hello(self) -> AgentCall:
        """The first request."""

    def welcomed(self, result: Any) -> AgentInfo:
        """Read its answer; `BadReply` when this is not an agent of this dialect."""

    def greetings(self) -> Sequence[AgentNotification]:
        """What is sent after the first answer."""

    def open(self, order: SeatOrder) -> AgentCall:
        """Make a session."""

    def unearth(self, session_id: str) -> Sequence[AgentCall]:
        """What may have to come before a load; an error in answer means that it did not have to."""

    def load(self, session_id: str, order: SeatOrder) -> AgentCall:
        """Bring a session of an earlier process back."""

    def opened(self, result: Any, session_id: str | None = None) -> Opened:
        """Read the answer to `open`, or to `load` of that session."""

    def recent_turns(self, session_id: str, turns: int) -> Sequence[AgentCall]:
        """What to ask for the last turns of a loaded session; empty where the load itself repeats the conversation."""

    def recited(self, result: Any) -> Sequence[AgentEvent]:
        """Read the answer: what was said in them, the oldest first."""

    def set_mode(self, session_id: str, mode: str) -> Sequence[AgentCall]:
        """Put a session into a mode; empty where the dialect has none."""

    def prompt(self, session_id: str, parts: Sequence[PromptPart], level: Level | None = None) -> AgentCall:
        """Start a turn. `level`: what the agent may do in it, for dialects that say so with each turn."""

    def replied(self, session_id: str, result: Any) -> Finished | None:
        """Read the answer to `prompt`; None when the turn's end comes as an event of its own."""

    def failed(self, session_id: str, fault: RpcFault) -> None:
        """The prompt was answered with an error: no turn runs."""

    def cancel(self, session_id: str) -> AgentCall | AgentNotification | None:
        """End the running turn; None while the agent's turn is not yet to be cancelled: asked again at each event."""

    def close(self, session_id: str, *, offered: bool) -> Sequence[AgentCall]:
        """End the session for good; empty when the agent has no way to."""

    def forget(self, session_id: str) -> None:
        """Remember nothing of it."""

    def probe(self) -> AgentCall:
        """A question that costs the agent nothing; any answer proves that it lives."""

    def session_update(self, method: str, params: JsonObject) -> SessionUpdate | None:
        """Read a notification; None when it concerns no session."""

    def wanted(self, method: str, params: JsonObject) -> AgentRequest:
        """Read a request of the agent."""

    def carries(self, method: str) -> bool:
        """Whether a request or notification is for the tools of this process, and no business of the codec's."""

    def permission_answer(self, wanted: PermissionWanted, option: str | None) -> JsonObject:
        """The result for a permission request; None cancels it."""

    def tool_answer(self, result: ToolResult) -> JsonObject:
        """The result for a tool call."""
