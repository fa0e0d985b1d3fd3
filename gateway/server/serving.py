"""Serves until told to stop, then shuts down in order.

Rules: SIGTERM or SIGINT begins the drain: new work is refused with 503 while running turns end; then the remaining
turns are stopped and stored; then the listener closes. A second signal ends the wait. A signal during the start ends
the start. SIGHUP reads the keys again.
"""

import asyncio
import logging
import socket
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from typing import Self

import uvicorn
from starlette.types import ASGIApp

from ostler.bridge.channels.uvicorn_internals import EmbeddedServer
from ostler.gateway.config.load import Loaded
from ostler.gateway.http.protocol import JsonHttp, ListenerState
from ostler.gateway.server.admin_socket import Familiar, listening
from ostler.gateway.server.app import Gateway, open_gateway
from ostler.gateway.server.heap import give_back_now_and_then
from ostler.gateway.server.listener import connections_allowed
from ostler.gateway.server.signals import Signals
from ostler.gateway.server.systemd import notify

log = logging.getLogger(__name__)
COMMAND = "ostler serve"
FAREWELL = 5
IDLE = 75
"""Seconds that a connection stays open for its next request: longer than clients (5) and proxies in front of us (60)
keep theirs. With uvicorn's default of 5, it was closed just when a client sent again, and the client got a reset."""
LAST_PATIENCE = 5.0
CONNECTIONS = 2048


class Server(EmbeddedServer):
    """A server without signal handlers: uvicorn would close the listener before the drain."""

    @classmethod
    def of(cls, app: ASGIApp, http: type[asyncio.Protocol] = JsonHttp, *, connections: int = CONNECTIONS) -> Self:
        """A server with the settings of every gateway, for at most `connections` connections."""
        return cls(
            uvicorn.Config(
                app,
                http=http,
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                server_header=False,
                date_header=False,
                timeout_keep_alive=IDLE,
                timeout_graceful_shutdown=FAREWELL,
            ),
            ListenerState(connections),
        )


async def serve(
    loaded: Loaded, environ: Mapping[str, str], listener: socket.socket, ready: Callable[[], None], signals: Signals
) -> None:
    """Run a gateway from its start to its end. `ready` is called when it serves."""
    signals.attach()
    async with AsyncExitStack() as stack:
        gateway = await opened(stack, loaded, environ, signals)
        if gateway is None:
            log.info("told to stop in the middle of the start")
            return
        signals.attach(gateway.reloader.reload_soon)
        with listening(loaded.data_dir) as admin:
            connections = connections_allowed(loaded.settings.gateway.connections_max)
            servers = (
                Server.of(gateway.app, connections=connections),
                Server.of(gateway.admin, Familiar, connections=connections),
            )
            async with asyncio.TaskGroup() as household:
                tidying = household.create_task(
                    give_back_now_and_then(running=lambda: gateway.sessions.running, loops=gateway.readiness.loops)
                )
                async with asyncio.TaskGroup() as group:
                    for server, place in zip(servers, (listener, admin), strict=True):
                        group.create_task(server.serve(sockets=[place]))
                    ready()
                    group.create_task(until_ended(gateway, servers, loaded.settings.gateway.drain, environ, signals))
                tidying.cancel()


async def opened(stack: AsyncExitStack, loaded: Loaded, environ: Mapping[str, str], signals: Signals) -> Gateway | None:
    """Open the gateway; None if a signal arrives meanwhile.

    A start in progress is completed, so that each part is closed by the code that opened it. If it takes longer than
    `LAST_PATIENCE` after the signal (a tool server that does not answer), it is cancelled.
    """
    loop = asyncio.get_running_loop()
    if signals.ending.is_set():
        return None
    try:
        async with asyncio.timeout(None) as limit:
            signals.at_end = lambda: limit.reschedule(loop.time() + LAST_PATIENCE)
            gateway = await stack.enter_async_context(open_gateway(loaded, environ, command=COMMAND))
    except TimeoutError:
        if not signals.ending.is_set():
            raise
        return None
    finally:
        signals.at_end = None
    return None if signals.ending.is_set() else gateway


async def until_ended(
    gateway: Gateway, servers: Sequence[Server], drain: float, environ: Mapping[str, str], signals: Signals
) -> None:
    """Wait for the first signal, drain, and make the servers exit."""
    notify(environ, "READY=1")
    await signals.ending.wait()
    notify(environ, "STOPPING=1")
    log.info("stopping: %d turns may end within %.1f s", gateway.sessions.running, drain)
    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(gateway.sessions.drain(drain))
        impatient = group.create_task(cut_short(signals.again, waiting))
        await asyncio.wait([waiting])
        impatient.cancel()
    if waiting.cancelled():
        # Cancelled, but orderly: the turns are stopped and their clients answered, as when the drain time is over.
        await gateway.sessions.drain(0)
    for server in servers:
        server.stop()


async def cut_short(again: asyncio.Event, waiting: "asyncio.Task[None]") -> None:
    """End the drain at the second signal."""
    await again.wait()
    waiting.cancel()
