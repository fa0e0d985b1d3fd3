"""One binding: the tools of one session behind one token. A value machine: no loop, no clock, no socket.

    ISSUED -> ATTACHED -> REVOKED        (and ISSUED -> REVOKED)

Rules: a call keeps the dispatcher and context that it began with, also when others are published later. Publishing
changes only this binding, and none of its calls in flight. Unpublishing ends the calls in flight. A revoked binding
holds no dispatcher, no context and no definitions, so that the session behind it can be freed.
"""

import enum
from contextvars import Context
from dataclasses import dataclass
from typing import Protocol

from ostler.bridge.calls import CallResult, Dispatcher
from ostler.bridge.context import ambient_for
from ostler.bridge.errors import (
    BindingRevoked,
    CallRefused,
    NotBound,
    NothingPublished,
    TooManyCalls,
    UnknownTool,
)
from ostler.bridge.toolbox import EMPTY, Toolbox
from ostler.wire.json import JsonObject
from ostler.wire.rpc import RpcId


class BindingState(enum.Enum):
    """How far a binding is; ATTACHED means that its agent has listed the tools."""

    ISSUED = "issued"
    ATTACHED = "attached"
    REVOKED = "revoked"


@dataclass(frozen=True, slots=True)
class PeerIdentity:
    """A process by pid and start time: the kernel reuses pids, but not the pair."""

    pid: int
    start_time: int


class CallOrigin(Protocol):
    """The channel that a call came from and that gets its answer."""

    def answer(self, call: "BoundCall", outcome: CallResult | CallRefused) -> None: ...

    def progress(
        self, call: "BoundCall", progress: float, total: float | None = None, message: str | None = None
    ) -> None: ...

    def log(self, call: "BoundCall", level: str, data: object, logger: str | None = None) -> None: ...


@dataclass(slots=True, eq=False)
class BoundCall:
    """One call in flight, with everything it needs to end where it began."""

    name: str
    arguments: JsonObject
    call_id: str
    origin: CallOrigin
    dispatcher: Dispatcher
    context: object
    ambient: Context
    request_id: RpcId = None
    progress_token: RpcId = None


@dataclass(frozen=True, slots=True)
class Publication:
    """A dispatcher and the session it acts for; replaced as a whole."""

    dispatcher: Dispatcher
    context: object
    ambient: Context


class Binding:
    """The decisions for one token: which tools it has, which calls run, and whether it is still valid."""

    __slots__ = (
        "__weakref__",
        "_publication",
        "agent_session_id",
        "calls",
        "generation",
        "max_calls",
        "owner",
        "seen_generation",
        "state",
        "tools",
    )

    def __init__(self, tools: Toolbox, *, max_calls: int) -> None:
        self.state = BindingState.ISSUED
        self.owner: PeerIdentity | None = None
        self.agent_session_id: str | None = None
        self.calls: set[BoundCall] = set()
        self.max_calls = max_calls
        self.tools = tools
        self.generation = 0
        self.seen_generation: int | None = None
        """The generation of the tool list that the agent has read to its end."""
        self._publication: Publication | None = None

    @property
    def dispatcher(self) -> Dispatcher | None:
        return None if self._publication is None else self._publication.dispatcher

    def own(self, owner: PeerIdentity) -> None:
        self._require_live()
        self.owner = owner

    def contradicts(self, stated: object) -> bool:
        """Whether the agent states with a call that another of its sessions calls than the one this binding is for."""
        return self.agent_session_id is not None and isinstance(stated, str) and stated != self.agent_session_id

    def attach(self) -> bool:
        """Note that the agent has listed the tools. True the first time."""
        if self.state is not BindingState.ISSUED:
            return False
        self.state = BindingState.ATTACHED
        return True

    def publish(self, tools: Toolbox, dispatcher: Dispatcher, context: object) -> bool:
        """Send later calls to this dispatcher. True if the tool list that an agent may have read has changed."""
        self._require_live()
        changed = self._define(tools)
        self._publication = Publication(dispatcher, context, ambient_for(context))
        return changed

    def unpublish(self) -> tuple[bool, list[BoundCall]]:
        """Have no tools until the next publication. Returns whether the list changed, and the calls that end now."""
        changed = self._define(EMPTY)
        self._publication = None
        ended = list(self.calls)
        self.calls.clear()
        return changed, ended

    def revoke(self) -> list[BoundCall]:
        """End the binding for good; returns the calls that end now. Idempotent."""
        _, ended = self.unpublish()
        self.state = BindingState.REVOKED
        self.owner = None
        return ended

    def begin(self, name: str, arguments: JsonObject, call_id: str, origin: CallOrigin) -> BoundCall:
        if self.state is BindingState.REVOKED:
            raise NotBound
        publication = self._publication
        if publication is None:
            raise NothingPublished
        if name not in self.tools.names:
            raise UnknownTool(name)
        if len(self.calls) >= self.max_calls:
            raise TooManyCalls(self.max_calls)
        call = BoundCall(
            name, arguments, call_id, origin, publication.dispatcher, publication.context, publication.ambient
        )
        self.calls.add(call)
        return call

    def finish(self, call: BoundCall) -> bool:
        """Note that the call is over. False if it had been ended before, so that no answer is due."""
        if call not in self.calls:
            return False
        self.calls.discard(call)
        return True

    def _define(self, tools: Toolbox) -> bool:
        if tools == self.tools:
            return False
        self.tools = tools
        self.generation += 1
        return True

    def _require_live(self) -> None:
        if self.state is BindingState.REVOKED:
            raise BindingRevoked
