"""The HTTP channel on the network: a loopback socket, uvicorn, and `HttpApp` behind it. Off unless configured.

Rules: it listens on loopback addresses only, on a socket of its own, so that no setting of the gateway's public address
can expose it. An agent gets the address and a bearer token; both are useless after the binding has ended.
"""

import asyncio
import math
import socket
from functools import partial
from typing import Final, cast

import uvicorn

from ostler.bridge.channels.http_app import HttpApp, HttpSettings
from ostler.bridge.channels.http_door import UnauthenticatedConnections
from ostler.bridge.channels.uvicorn_internals import EmbeddedServer
from ostler.bridge.doors import HttpServerEntry
from ostler.bridge.errors import BridgeError
from ostler.bridge.session_binding import SessionBinding
from ostler.bridge.settings import SERVER_NAME
from ostler.bridge.tokens import TokenSource, secret_token
from ostler.metrics.loops import Loops

FAREWELL: Final = 2
HOSTS: Final = ("localhost", "127.0.0.1", "::1")
"""The host names that a request may use for this machine; a server at another loopback address would refuse all."""


class NotLoopback(BridgeError):
    """The configured host is not a loopback address."""

    def __init__(self, host: str) -> None:
        self.host = host
        super().__init__(f"the HTTP tool channel listens on {', '.join(HOSTS)} only, not on {host}")


class HttpNotRunning(BridgeError):
    """A binding asked for an entry before `start` or after `stop`."""

    def __init__(self) -> None:
        super().__init__("the HTTP tool channel is not running; enable it, and call start() first")


class HttpChannel:
    """Starts and stops the HTTP channel, and creates the server entry of a binding."""

    def __init__(
        self,
        settings: HttpSettings,
        *,
        tokens: TokenSource = secret_token,
        loops: Loops | None = None,
    ) -> None:
        if settings.host not in HOSTS:
            raise NotLoopback(settings.host)
        self.app = HttpApp(settings, tokens=tokens)
        self._settings = settings
        self._loops = Loops() if loops is None else loops
        self._url: str | None = None
        self._server: EmbeddedServer | None = None
        self._serving: asyncio.Task[None] | None = None

    @property
    def running(self) -> bool:
        return self._url is not None

    async def start(self) -> None:
        if self._serving is not None:
            return
        listener = _listener(self._settings)
        server = self._server = EmbeddedServer(_config(self.app, self._settings))
        self._serving = serving = asyncio.get_running_loop().create_task(self._serve(server, listener))
        listening = asyncio.get_running_loop().create_task(server.listening.wait())
        await asyncio.wait([serving, listening], return_when=asyncio.FIRST_COMPLETED)
        if serving.done():
            listening.cancel()
            self._server = self._serving = None
            await serving
        self._url = f"http://{_address(listener)}{self._settings.path}"

    async def _serve(self, server: EmbeddedServer, listener: socket.socket) -> None:
        with self._loops.add("the HTTP tool channel", patience=math.inf).running():
            await server.serve(sockets=[listener])

    async def stop(self) -> None:
        """End all streams, finish the answers in progress, and free the port."""
        server, serving = self._server, self._serving
        if server is None or serving is None:
            return
        self._server = self._serving = self._url = None
        self.app.end()
        server.stop()
        await serving

    def open(self, binding: SessionBinding) -> HttpServerEntry:
        if self._url is None:
            raise HttpNotRunning
        return HttpServerEntry(SERVER_NAME, self._url, {"Authorization": f"Bearer {self.app.admit(binding)}"})


def _listener(settings: HttpSettings) -> socket.socket:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    return socket.create_server((settings.host, settings.port), family=family, backlog=256)


def _address(listener: socket.socket) -> str:
    host, port = listener.getsockname()[:2]
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def _config(app: HttpApp, settings: HttpSettings) -> uvicorn.Config:
    protocol = partial(
        UnauthenticatedConnections, connection_limit=settings.connection_limit, head_deadline=settings.head_deadline
    )
    return uvicorn.Config(
        app,
        http=cast("type[asyncio.Protocol]", protocol),  # uvicorn only calls it and never checks that it is a class
        ws="none",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_graceful_shutdown=FAREWELL,
    )
