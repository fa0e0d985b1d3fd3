"""The admin socket, and the check of its peers.

Rules: the socket has mode 0600 in a folder of mode 0700, and the kernel is asked for the peer's uid: it must be ours,
or root's, who could read the folder anyway. Any other peer is disconnected without an answer.
"""

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ostler.bridge.peers import uid_of
from ostler.gateway.http.protocol import JsonHttp
from ostler.gateway.ops.console.place import admin_socket, short
from ostler.gateway.server.listener import listen_unix


@contextmanager
def listening(folder: Path) -> Iterator[socket.socket]:
    """Listen on the admin socket. Replaces the socket of a killed gateway; only the owner of the data folder may call
    this."""
    path = admin_socket(folder)
    with short(path) as name:
        listener = listen_unix(Path(name))
    try:
        yield listener
    finally:
        listener.close()
        path.unlink(missing_ok=True)


class Familiar(JsonHttp):
    """HTTP that serves only peers of our own user."""

    def connection_made(self, transport: Any) -> None:  # what uvicorn calls the type differs between its releases
        """Disconnect a peer of another user."""
        if familiar(uid_of(transport.get_extra_info("socket"))):
            super().connection_made(transport)
        else:
            transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Skip the end of a connection that was refused and never began."""
        if self.transport is not None:
            super().connection_lost(exc)


def familiar(uid: int | None) -> bool:
    """Whether a peer may speak. None means that the platform does not tell; then the folder's mode must suffice."""
    return uid is None or uid in (os.geteuid(), 0)
