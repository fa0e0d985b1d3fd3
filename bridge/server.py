"""The bridge: a unix socket and the bindings behind it. Nothing survives `stop`.

Rules: connections are accepted one at a time, so a flood of them waits in the socket's queue while other clients are
served. A connection without a binding is unbound: their number is bounded, and the oldest is closed for a new one.
Connections with a binding are bounded by the bindings, one each.
"""

import asyncio
import errno
import logging
import math
import os
import secrets
import socket
import time
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from contextvars import Context
from typing import Final

from ostler.bridge import peers
from ostler.bridge.binding import Binding
from ostler.bridge.bindings import AdmittedClient, Bindings, Compromised, RejectReason
from ostler.bridge.calls import Dispatcher
from ostler.bridge.channels.acp import AcpChannel
from ostler.bridge.connection import SocketConnection
from ostler.bridge.conversation import McpClient
from ostler.bridge.doors import Channels, HttpChannelPort
from ostler.bridge.errors import BridgeNotRunning, TokenCollision
from ostler.bridge.hello import OVER, Hello
from ostler.bridge.offer import Offer
from ostler.bridge.runner import Runner
from ostler.bridge.session_binding import Loss, SessionBinding, relay_command
from ostler.bridge.settings import BridgeSettings
from ostler.bridge.socket_path import SocketPlace, listen
from ostler.bridge.stats import Stats
from ostler.bridge.threads import Threads
from ostler.bridge.tokens import TokenSource, digest, secret_token, well_formed
from ostler.bridge.tool import tool_of
from ostler.bridge.toolbelt import Toolbelt
from ostler.bridge.toolbox import Toolboxes
from ostler.metrics.loops import Loops
from ostler.wire.json import JsonObject

logger = logging.getLogger(__name__)

# The system lacks a resource, or the peer has disconnected: wait a little and continue.
PASSING: Final = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS, errno.ENOMEM, errno.ECONNABORTED}
ACCEPT_PAUSE: Final = 0.05
STOP_PATIENCE: Final = 2.0


class Bridge:
    """Issues tokens, accepts relays on the socket, and connects each to the binding of its token."""

    def __init__(
        self,
        settings: BridgeSettings,
        *,
        tokens: TokenSource = secret_token,
        clock: Callable[[], float] = time.monotonic,
        http: HttpChannelPort[SessionBinding] | None = None,
        loops: Loops | None = None,
    ) -> None:
        """The caller starts and stops `http`; without it, no session can use the HTTP channel."""
        self._loops = Loops() if loops is None else loops
        self.settings = settings
        self.stats = Stats()
        self._tokens = tokens
        self._clock = clock
        self._channels = Channels(http, lambda tell: AcpChannel(tell, name=settings.server_name, ids=tokens))
        self._place: SocketPlace | None = None
        self._accepting: asyncio.Task[None] | None = None
        self._serial = 0
        self._threads = Threads()
        self._reset()

    @property
    def socket_path(self) -> str:
        return str(self._running("the socket path").path)

    async def start(self) -> None:
        if self._place is not None:
            return
        self._reset()
        self._place = listen(self.settings.data_directory, self.settings.runtime_directory)
        self._accepting = asyncio.get_running_loop().create_task(self._accept(self._place.listener))
        self._accepting.add_done_callback(_seen)

    async def stop(self) -> None:
        """Revoke every token, answer every running call, close every connection and remove the socket."""
        place, accepting = self._place, self._accepting
        if place is None or accepting is None:
            return
        self._place = self._accepting = None
        accepting.cancel()
        for session in tuple(self._sessions.values()):
            session.revoke()
        try:
            await asyncio.wait([accepting])
            # Read and answer requests that have already arrived before the connections close.
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            await self._dismiss()
            await self._runner.stop(STOP_PATIENCE)
        finally:
            # Also on cancellation: a remaining socket and lock would prevent the next start.
            for connection in tuple(self._connections):
                connection.abort()
            place.close()

    def open(self, definitions: Sequence[JsonObject] = ()) -> SessionBinding:
        """Issue a new token. Its tools can be listed from now on; calls are errors until `publish`."""
        place = self._running("open a binding")
        token = self._tokens()
        if not well_formed(token):
            raise TokenCollision
        binding = Binding(self._toolboxes.of(definitions), max_calls=self.settings.calls_per_binding)
        self._table.issue(self._digest(token), binding)
        session = SessionBinding(
            binding,
            token=token,
            relay=relay_command(self.settings.server_name, place.path, token),
            settings=self.settings,
            toolboxes=self._toolboxes,
            runner=self._runner,
            stats=self.stats,
            channels=self._channels,
            on_revoked=self._forget,
            on_dismissed=lambda session: self._dismiss_relay(self._digest(session.token)),
        )
        self._sessions[binding] = session
        return session

    def offer(self, tools: Iterable[object]) -> Offer:
        """An offer of plain functions or `Tool`s for one session: their limits count that session's calls only.

        Raises `SignatureRefused` for a function that cannot be a tool, `DuplicateTool` for two of one name.
        """
        return Toolbelt(map(tool_of, tools), threads=self._threads).offer

    def publish(
        self, binding: SessionBinding, tools: Sequence[JsonObject], dispatcher: Dispatcher, context: object = None
    ) -> None:
        binding.publish(tools, dispatcher, context)

    def unpublish(self, binding: SessionBinding) -> None:
        binding.unpublish()

    def arrive(self, connection: SocketConnection) -> None:
        loop = asyncio.get_running_loop()
        self.stats.connections += 1
        self._connections.add(connection)
        self._hello_timers[connection] = loop.call_later(self.settings.hello_deadline, self._give_up, connection)
        self._add_unbound(connection)

    def greet(self, connection: SocketConnection, said: Hello | RejectReason) -> McpClient | None:
        self._hello_timers.pop(connection).cancel()
        if isinstance(said, RejectReason):
            self._refuse(said)
            return None
        admitted = self._table.admit(connection.serial, self._digest(said.token), connection.peer)
        if isinstance(admitted, Compromised):
            self._refuse(RejectReason.SECOND)
            logger.warning(
                "a second process showed a tool token, its session gets new tools: %s", connection.peer.process
            )
            self._sessions[admitted.binding].give_up(Loss.SHOWN_TWICE)
            return None
        if isinstance(admitted, RejectReason):
            self._refuse(admitted)
            return None
        del self._unbound[connection]
        return self._bind(connection, admitted)

    def leave(self, connection: SocketConnection) -> None:
        self._connections.discard(connection)
        self._unbound.pop(connection, None)
        self._bound.pop(connection.serial, None)
        timer = self._hello_timers.pop(connection, None)
        if timer is not None:
            timer.cancel()
        binding = self._table.part(connection.serial)
        if binding is not None:
            self.stats.connected -= 1
            self._sessions[binding].disconnect(connection.peer.process)
        if not self._connections:
            self._empty.set()

    def _reset(self) -> None:
        self._key = secrets.token_bytes(32)
        self._table = Bindings(peers.tells_processes())
        self._sessions: dict[Binding, SessionBinding] = {}
        self._toolboxes = Toolboxes()
        self._runner = Runner(deadline=self.settings.call_deadline, clock=self._clock, stats=self.stats)
        self._connections: set[SocketConnection] = set()
        self._bound: dict[int, SocketConnection] = {}
        # Relays of sessions that have ended, until they are dismissed.
        self._pending_dismissals: dict[bytes, tuple[SocketConnection, asyncio.TimerHandle]] = {}
        # Connections without a binding, in order of arrival.
        self._unbound: dict[SocketConnection, None] = {}
        self._hello_timers: dict[SocketConnection, asyncio.TimerHandle] = {}
        self._empty = asyncio.Event()

    def _running(self, wanted: str) -> SocketPlace:
        if self._place is None:
            raise BridgeNotRunning(wanted)
        return self._place

    def _digest(self, token: str) -> bytes:
        return digest(self._key, token.encode())

    def _bind(self, connection: SocketConnection, admitted: AdmittedClient) -> McpClient:
        session = self._sessions[admitted.binding]
        self.stats.reconnects += admitted.resumed
        self.stats.connected += 1
        self._bound[connection.serial] = connection
        if admitted.displaced is not None:
            self.stats.connected -= 1
            self._bound.pop(admitted.displaced).close()
        return session.connect(connection, resumed=admitted.resumed)

    def _refuse(self, cause: RejectReason) -> None:
        self.stats.refused[cause.value] += 1
        # Counted, and logged at debug level only: unauthenticated clients must not be able to fill the log.
        logger.debug("bridge connection refused: %s", cause.value)

    def _forget(self, session: SessionBinding) -> None:
        ended = self._digest(session.token)
        binding, serial = self._table.forget(ended)
        del self._sessions[binding]
        if serial is not None:
            # Its requests are refused from now on, like those of any other unbound connection.
            self.stats.connected -= 1
            connection = self._bound.pop(serial)
            self._add_unbound(connection)
            if self._place is not None:
                # Not immediately: an agent that sees its tool server exit before it has closed the session may restart
                # it. In a context of its own, so that the caller's context does not stay alive for it.
                loop = asyncio.get_running_loop()
                alarm = loop.call_later(self.settings.farewell_after, self._dismiss_relay, ended, context=Context())
                self._pending_dismissals[ended] = (connection, alarm)

    def _dismiss_relay(self, ended: bytes) -> None:
        """Tell the relay of an ended session to exit: it would only take memory and an entry in the process table."""
        pending = self._pending_dismissals.pop(ended, None)
        if pending is not None:
            connection, alarm = pending
            alarm.cancel()
            connection.send(OVER)

    def _add_unbound(self, connection: SocketConnection) -> None:
        self._unbound[connection] = None
        if len(self._unbound) > self.settings.unbound_limit:
            self._evict()

    def _evict(self) -> None:
        oldest = next(iter(self._unbound), None)
        if oldest is not None:
            del self._unbound[oldest]
            self.stats.evicted += 1
            oldest.abort()

    def _give_up(self, connection: SocketConnection) -> None:
        self.stats.hello_timeouts += 1
        connection.abort()

    async def _accept(self, listener: socket.socket) -> None:
        rounds = self._loops.add("the bridge, which takes in the relays of agents,", patience=math.inf, vital=True)
        with rounds.running():
            while True:
                with rounds.round():
                    await self._accept_one(listener)
                if rounds.failures:
                    await asyncio.sleep(ACCEPT_PAUSE)

    async def _accept_one(self, listener: socket.socket) -> None:
        loop = asyncio.get_running_loop()
        try:
            accepted, _ = await loop.sock_accept(listener)
        except OSError as error:
            if error.errno not in PASSING:
                raise
            self._evict()
            await asyncio.sleep(ACCEPT_PAUSE)
            return
        try:
            await self._receive(loop, accepted)
        except OSError as error:
            # The peer disconnected between two system calls; drop only this connection.
            self.stats.refused["lost"] += 1
            logger.warning("bridge connection lost while it was accepted: %s", error)
            accepted.close()
        except BaseException:
            accepted.close()
            raise

    async def _receive(self, loop: asyncio.AbstractEventLoop, accepted: socket.socket) -> None:
        uid = peers.uid_of(accepted)
        if uid is not None and uid != os.geteuid():
            self.stats.refused["uid"] += 1
            accepted.close()
            await asyncio.sleep(0)
            return
        self._serial += 1
        connection = SocketConnection(
            self, serial=self._serial, peer=peers.peer_of(accepted), frame_limit=self.settings.frame_limit
        )
        await loop.connect_accepted_socket(lambda: connection, accepted)

    async def _dismiss(self) -> None:
        for connection in tuple(self._connections):
            connection.close()
        try:
            async with asyncio.timeout(STOP_PATIENCE):
                while self._connections:
                    self._empty.clear()
                    await self._empty.wait()
        except TimeoutError:
            logger.warning("%d bridge connections do not read their last answers", len(self._connections))


def _seen(task: asyncio.Task[None]) -> None:
    if not task.cancelled() and (error := task.exception()) is not None:
        logger.critical("the bridge accepts no more connections", exc_info=error)


@asynccontextmanager
async def open_bridge(settings: BridgeSettings | None = None) -> AsyncIterator[Bridge]:
    """A started bridge on the running loop, stopped at the end. Raises `SocketRefused` and `SocketInUse`."""
    bridge = Bridge(settings or BridgeSettings())
    await bridge.start()
    try:
        yield bridge
    finally:
        await bridge.stop()
