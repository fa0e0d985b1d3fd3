"""The tools of one session as their owner uses them: publish, wait until the agent has them, call, revoke.

Rules: the `Binding` decides everything; this class passes its decisions to the relay, the native channels and the
running tasks. A binding whose relay is gone for good is given up: no other process may take its place (see `bindings`),
so its session needs a new one. A native channel (one that knows the session by itself) uses `definitions`, `call` and
`on_definitions`, and ends in the same dispatcher, with the same context and the same limits, as a call through the
relay.
"""

import asyncio
import sys
from collections.abc import Callable, Mapping, Sequence
from contextvars import Context
from dataclasses import dataclass, field
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Final, Protocol

from ostler.bridge.binding import Binding, BindingState, BoundCall, PeerIdentity
from ostler.bridge.calls import CallProgress, CallResult, Dispatcher
from ostler.bridge.conversation import FrameSink, McpClient
from ostler.bridge.doors import ChannelListener, Channels, HttpServerEntry, Pipe
from ostler.bridge.errors import BindingRevoked, CallRefused, CallWithdrawn, ToolsLost
from ostler.bridge.process_end import ProcessEnd
from ostler.bridge.runner import Runner
from ostler.bridge.settings import BridgeSettings
from ostler.bridge.stats import Stats
from ostler.bridge.toolbox import Toolboxes
from ostler.wire.json import JsonObject

RELAY: Final = Path(__file__).with_name("relay_start.py").resolve()


class Loss(StrEnum):
    """Why the agent can no longer reach its tools."""

    ENDED = "ended"
    """The relay's process has ended."""
    AWAY = "away"
    """The relay lost its connection and did not come back in time."""
    SHOWN_TWICE = "shown_twice"
    """A second process presented the token."""


@dataclass(frozen=True, slots=True)
class RelayCommand:
    """The command that an agent launches. The token is in the environment only: every user can read argv."""

    name: str
    argv: tuple[str, ...]
    env: Mapping[str, str] = field(repr=False)


class BindingIdentity(Protocol):
    """A process as the caller names it; satisfied by the pool's `ToolIdentity`."""

    @property
    def pid(self) -> int: ...
    @property
    def start_time(self) -> int: ...


def relay_command(name: str, socket_path: Path, token: str) -> RelayCommand:
    return RelayCommand(
        name,
        (sys.executable, "-I", "-S", "-E", str(RELAY), "relay"),
        {"OSTLER_BRIDGE_SOCKET": str(socket_path), "OSTLER_ACP_SESSION_BINDING": token},
    )


class SessionBinding:
    """The handle of one session's tools, from `Bridge.open` until `revoke` or `give_up`."""

    __slots__ = (
        "_attached",
        "_binding",
        "_channels",
        "_conversation",
        "_disconnect_callbacks",
        "_entry",
        "_grace",
        "_list_read",
        "_listeners",
        "_lost",
        "_on_dismissed",
        "_on_revoked",
        "_relay_end",
        "_revoked_callbacks",
        "_runner",
        "_settings",
        "_stats",
        "_toolboxes",
        "relay",
        "token",
    )

    def __init__(
        self,
        binding: Binding,
        *,
        token: str,
        relay: RelayCommand,
        settings: BridgeSettings,
        toolboxes: Toolboxes,
        runner: Runner,
        stats: Stats,
        channels: Channels["SessionBinding"],
        on_revoked: Callable[["SessionBinding"], None],
        on_dismissed: Callable[["SessionBinding"], None],
    ) -> None:
        self.token = token
        self.relay = relay
        self._binding = binding
        self._settings = settings
        self._toolboxes = toolboxes
        self._runner = runner
        self._stats = stats
        self._channels = channels
        self._entry: HttpServerEntry | None = None
        self._on_revoked = on_revoked
        self._on_dismissed = on_dismissed
        self._lost: Loss | None = None
        self._attached = asyncio.Event()
        self._list_read = asyncio.Event()
        self._conversation: McpClient | None = None
        self._grace: asyncio.TimerHandle | None = None
        self._relay_end: ProcessEnd | None = None
        self._listeners: list[Callable[[], None]] = []
        self._revoked_callbacks: list[Callable[[], None]] = []
        self._disconnect_callbacks: list[Callable[[], None]] = []

    def __repr__(self) -> str:
        return f"<SessionBinding {self._binding.state.value}, {len(self._binding.tools.names)} tools>"

    @property
    def state(self) -> BindingState:
        return self._binding.state

    @property
    def definitions(self) -> Sequence[JsonObject]:
        return self._binding.tools.documents

    def http(self) -> HttpServerEntry | None:
        """Its entry on the HTTP channel, created at the first call; None if that channel does not run."""
        http = self._channels.http
        if self._entry is None and http is not None and http.running:
            self._entry = http.open(self)
        return self._entry

    def pipe(self, tell: ChannelListener) -> Pipe["SessionBinding"]:
        """MCP over the pipe of an agent process that has none yet. It serves every binding declared on it."""
        return self._channels.pipe(tell)

    @property
    def dispatcher(self) -> Dispatcher | None:
        """The dispatcher of calls that begin now; None before the first publication and after the last."""
        return self._binding.dispatcher

    def owned_by(self, owner: BindingIdentity) -> None:
        """From now on only this process and its descendants may connect with the token."""
        self._binding.own(PeerIdentity(owner.pid, owner.start_time))

    def witnessed_by(self, agent_session: str) -> None:
        """Set the agent's own id of the session. A call that states another id is refused in spite of the token."""
        self._binding.agent_session_id = agent_session

    async def attached(self) -> None:
        """Wait until the agent has listed the tools, by any channel; no deadline. Raises `BindingRevoked`."""
        await self._attached.wait()
        if self._binding.state is BindingState.REVOKED:
            raise BindingRevoked

    async def told(self) -> None:
        """Wait until the agent has read the current tool list to its end; no deadline. Raises `BindingRevoked`."""
        while self._binding.seen_generation != self._binding.generation:
            if self._binding.state is BindingState.REVOKED:
                raise BindingRevoked
            self._list_read.clear()
            await self._list_read.wait()

    def publish(self, definitions: Sequence[JsonObject], dispatcher: Dispatcher, context: object = None) -> None:
        if self._binding.publish(self._toolboxes.of(definitions), dispatcher, context):
            self._announce()

    def unpublish(self) -> None:
        changed, ended = self._binding.unpublish()
        self._withdraw(ended, CallWithdrawn())
        if changed:
            self._announce()

    def revoke(self) -> None:
        """End the binding for good: invalidate the token, release the dispatcher and the context. Idempotent."""
        self._end(CallWithdrawn())

    def _end(self, refusal: CallRefused) -> None:
        if self._binding.state is BindingState.REVOKED:
            return
        self._withdraw(self._binding.revoke(), refusal)
        self._stop_waiting()
        self._conversation = self._entry = None
        self._listeners.clear()
        self._revoked_callbacks.clear()
        self._attached.set()
        self._list_read.set()
        self._on_revoked(self)
        callbacks, self._disconnect_callbacks = self._disconnect_callbacks, []
        for callback in callbacks:
            callback()

    def dismiss(self) -> None:
        """Call after `revoke`, when the agent has closed the session or never will: its relay may exit immediately."""
        if self._binding.state is BindingState.REVOKED:
            self._on_dismissed(self)

    def on_definitions(self, listener: Callable[[], None]) -> None:
        """Call `listener` after each change of the definitions."""
        self._listeners.append(listener)

    @property
    def lost(self) -> Loss | None:
        """Why the agent can no longer reach these tools; None while it can, and after an ordinary `revoke`."""
        return self._lost

    def on_gone(self, listener: Callable[[], None]) -> None:
        """Call `listener` once when the binding is given up (`give_up`); immediately if it already was."""
        if self._lost is not None:
            listener()
        elif self._binding.state is not BindingState.REVOKED:
            self._revoked_callbacks.append(listener)

    def give_up(self, loss: Loss) -> None:
        """End the binding whose agent can no longer reach it: as `revoke`, then call the `on_gone` listeners."""
        if self._binding.state is BindingState.REVOKED:
            return
        self._lost = loss
        self._stats.lost[loss.value] += 1
        listeners = tuple(self._revoked_callbacks)
        self._end(ToolsLost(loss.value))
        for listener in listeners:
            listener()

    def on_revoked(self, callback: Callable[[], None]) -> None:
        """Call `callback` once after the binding has ended; for channels with state. Raises `BindingRevoked`."""
        if self._binding.state is BindingState.REVOKED:
            raise BindingRevoked
        self._disconnect_callbacks.append(callback)

    async def call(
        self, name: str, arguments: JsonObject, *, call_id: str, progress: CallProgress | None = None
    ) -> CallResult:
        """A call by a channel without a relay. A refusal is an error result: there is no protocol error here."""
        waiter = NativeCall(progress)
        try:
            call = self._binding.begin(name, arguments, call_id, waiter)
        except CallRefused as refusal:
            return CallResult.error(str(refusal))
        self._runner.start(self._binding, call)
        try:
            return await waiter.outcome
        finally:
            if self._binding.finish(call):
                self._runner.cancel(call)

    def connect(self, outlet: FrameSink, *, resumed: bool) -> McpClient:
        """Attach a relay. A channel with another carrier (HTTP, MCP over ACP) creates its own `conversation`."""
        self._stop_waiting()
        if self._conversation is None:
            self._conversation = self.conversation()
        self._conversation.connect(outlet, resumed=resumed)
        return self._conversation

    def disconnect(self, process: PeerIdentity | None) -> None:
        """Note that the relay lost its connection. It may return while its process lives, within `reconnect_grace`."""
        if self._conversation is None:
            return
        self._conversation.disconnect()
        loop = asyncio.get_running_loop()
        self._grace = loop.call_later(self._settings.reconnect_grace, self.give_up, Loss.AWAY, context=Context())
        if process is not None:
            self._relay_end = ProcessEnd(process, partial(self.give_up, Loss.ENDED))

    def conversation(self) -> McpClient:
        return McpClient(
            self._binding,
            settings=self._settings,
            runner=self._runner,
            stats=self._stats,
            on_attached=self._attached.set,
            on_list_read=self._list_read.set,
        )

    def _announce(self) -> None:
        if self._conversation is not None:
            self._conversation.tools_changed()
        for listener in tuple(self._listeners):
            listener()

    def _withdraw(self, ended: list[BoundCall], word: CallRefused) -> None:
        for call in ended:
            call.origin.answer(call, word)
            self._runner.cancel(call)

    def _stop_waiting(self) -> None:
        if self._grace is not None:
            self._grace.cancel()
            self._grace = None
        if self._relay_end is not None:
            self._relay_end.close()
            self._relay_end = None


class NativeCall:
    """The origin of a call made with `SessionBinding.call`."""

    __slots__ = ("_progress", "outcome")

    def __init__(self, progress: CallProgress | None) -> None:
        self.outcome: asyncio.Future[CallResult] = asyncio.get_running_loop().create_future()
        self._progress = progress

    def answer(self, call: BoundCall, outcome: CallResult | CallRefused) -> None:  # noqa: ARG002 - it has only this one
        if not self.outcome.done():
            self.outcome.set_result(outcome if isinstance(outcome, CallResult) else CallResult.error(str(outcome)))

    def progress(
        self,
        call: BoundCall,  # noqa: ARG002 - it has only this one
        progress: float,
        total: float | None = None,
        message: str | None = None,
    ) -> None:
        if self._progress is not None and not self.outcome.done():
            self._progress(progress, total, message)

    def log(self, call: BoundCall, level: str, data: object, logger: str | None = None) -> None:
        """Dropped: native channels cannot carry log messages."""
