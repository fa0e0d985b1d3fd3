"""The admin socket, and who may speak on it.

Rules: mode 0600 in a folder of mode 0700, and the peer's uid is asked of the kernel: ours, or root's, who could read
the folder anyway. Nobody else is answered a byte.
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
    """Takes the place of whoever was killed there: the owner of the data folder is the only one who may."""
    path = admin_socket(folder)
    with short(path) as name:
        listener = listen_unix(Path(name))
    try:
        yield listener
    finally:
        listener.close()
        path.unlink(missing_ok=True)


class Familiar(JsonHttp):
    """HTTP with our own user only."""

    def connection_made(self, transport: Any) -> None:  # what uvicorn calls the type differs between its releases
        """Hang up on anybody else."""
        if familiar(uid_of(transport.get_extra_info("socket"))):
            super().connection_made(transport)
        else:
            transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        """Nothing is to be ended of what never began."""
        if self.transport is not None:
            super().connection_lost(exc)


def familiar(uid: int | None) -> bool:
    """None: the platform does not tell, and the folder's mode is what is left."""
    return uid is None or uid in (os.geteuid(), 0)
