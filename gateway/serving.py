"""Serve until told to stop, then leave in good order.

Rules: SIGTERM or SIGINT begins the drain: new work is refused with 503 while running turns end, then what is left is
stopped and stored, then the listener closes. A second signal ends the wait.
"""

import asyncio
import logging
import signal
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Self

import uvicorn
from starlette.types import ASGIApp

from ostler.gateway.api.protocol import JsonHttp
from ostler.gateway.app import Gateway, open_gateway
from ostler.gateway.config.load import Loaded
from ostler.gateway.console.socket import Familiar, listening
from ostler.gateway.systemd import notify

log = logging.getLogger(__name__)
SIGNALS = (signal.SIGTERM, signal.SIGINT)
FAREWELL = 5


class Server(uvicorn.Server):
    """Signals are ours: uvicorn would close the listener before the drain."""

    @classmethod
    def of(cls, app: ASGIApp, http: type[asyncio.Protocol] = JsonHttp) -> Self:
        """As every gateway serves."""
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
                timeout_graceful_shutdown=FAREWELL,
            )
        )

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        yield


async def serve(loaded: Loaded, environ: Mapping[str, str], listener: socket.socket, ready: Callable[[], None]) -> None:
    """The life of a gateway."""
    async with open_gateway(loaded, environ) as gateway:
        with listening(loaded.data_dir) as admin:
            servers = (Server.of(gateway.app), Server.of(gateway.admin, Familiar))
            async with asyncio.TaskGroup() as group:
                for server, place in zip(servers, (listener, admin), strict=True):
                    group.create_task(server.serve(sockets=[place]))
                ready()
                group.create_task(until_told(gateway, servers, loaded.settings.gateway.drain, environ))


async def until_told(gateway: Gateway, servers: Sequence[Server], drain: float, environ: Mapping[str, str]) -> None:
    """Wait for the first signal, drain, close."""
    loop = asyncio.get_running_loop()
    told, again = asyncio.Event(), asyncio.Event()

    def heard() -> None:
        (again if told.is_set() else told).set()

    for number in SIGNALS:
        loop.add_signal_handler(number, heard)
    notify(environ, "READY=1")
    await told.wait()
    notify(environ, "STOPPING=1")
    log.info("stopping: %d turns may end within %.1f s", gateway.sessions.running, drain)
    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(gateway.sessions.drain(drain))
        impatient = group.create_task(cut_short(again, waiting))
        await asyncio.wait([waiting])
        impatient.cancel()
    for server in servers:
        server.should_exit = True


async def cut_short(again: asyncio.Event, waiting: "asyncio.Task[None]") -> None:
    """A second signal ends the drain."""
    await again.wait()
    waiting.cancel()
