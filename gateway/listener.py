"""The listening socket, made before anything else is started: a port that is taken stops the start at once."""

import contextlib
import os
import socket
import stat
from pathlib import Path

from ostler.gateway.errors import GatewayError

BACKLOG = 2048


class CannotListen(GatewayError):
    """The address is taken or not ours."""

    def __init__(self, address: str, why: str) -> None:
        super().__init__(f"cannot listen on {address}: {why}")
        self.address = address


def listen_tcp(host: str, port: int) -> socket.socket:
    """Port 0 takes a free one."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        raise CannotListen(f"{host} port {port}", f"{error.strerror}; choose another one with --port") from error
    return listener


def listen_unix(path: Path) -> socket.socket:
    """A socket file for its owner only. One that nobody listens on any more is replaced."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        remove_stale(path)
        before = os.umask(0o177)
        try:
            listener.bind(str(path))
        finally:
            os.umask(before)
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        raise CannotListen(str(path), f"{error.strerror or error}") from error
    return listener


def remove_stale(path: Path) -> None:
    """A socket file without a listener is what a killed gateway leaves; anything else is not ours to remove."""
    with contextlib.suppress(FileNotFoundError):
        if not stat.S_ISSOCK(path.lstat().st_mode):
            raise OSError(f"{path} is there and is no socket")
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            if probe.connect_ex(str(path)) == 0:
                raise OSError(f"{path}: somebody listens there already")
        path.unlink()


def address_of(listener: socket.socket) -> str:
    """As a person types it."""
    name = listener.getsockname()
    if isinstance(name, str):
        return f"unix:{name}"
    host = f"[{name[0]}]" if ":" in name[0] else name[0]
    return f"http://{host}:{name[1]}"
