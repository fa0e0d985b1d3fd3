"""The listening socket. It is opened before anything else, so that a port that is taken stops the start at once.

Rules: accepted connections inherit the socket's timeouts. The kernel cuts off a peer that reads nothing for
`client_patience`, or that has vanished (a closed laptop, an unplugged cable); we see that as an ordinary disconnect.
"""

import contextlib
import errno
import os
import resource
import socket
import stat
import sys
from pathlib import Path

from ostler.gateway.config.settings import GatewaySettings
from ostler.gateway.model.errors import GatewayError

BACKLOG = 2048
PRIVATE = 0o600
KEEPALIVE_PROBES = 3


LEAST_CONNECTIONS = 16


class CannotListen(GatewayError):
    """The address is in use, or not one of this machine."""

    def __init__(self, address: str, why: str) -> None:
        super().__init__(f"cannot listen on {address}: {why}")
        self.address = address


def connections_allowed(wanted: int) -> int:
    """How many connections to allow: at most half of the files that we may open. Agents, tools and the store need the
    other half, and must find it free while clients use all allowed connections."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return wanted if soft == resource.RLIM_INFINITY else min(wanted, max(LEAST_CONNECTIONS, soft // 2))


def listen(settings: GatewaySettings) -> socket.socket:
    """Listen on TCP as configured."""
    return listen_tcp(settings.host, settings.port, patience=settings.client_patience)


def listen_tcp(host: str, port: int, *, patience: float) -> socket.socket:
    """Listen on TCP; port 0 takes a free one. `patience`: seconds until a silent or vanished peer is cut off."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        be_patient(listener, patience)
        listener.bind((host, port))
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        no_host = isinstance(error, socket.gaierror) or error.errno == errno.EADDRNOTAVAIL
        wrong = "--host or OSTLER_GATEWAY__HOST" if no_host else "--port or OSTLER_GATEWAY__PORT"
        raise CannotListen(f"{host} port {port}", f"{error.strerror}; choose another one with {wrong}") from error
    return listener


def be_patient(listener: socket.socket, seconds: float) -> None:
    """Probe idle peers, and limit the wait for one that acknowledges or reads nothing."""
    whole = max(1, round(seconds))
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if sys.platform == "linux":
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, whole)
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, max(1, whole // KEEPALIVE_PROBES))
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, KEEPALIVE_PROBES)
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, round(seconds * 1000))


def listen_unix(path: Path) -> socket.socket:
    """Listen on a socket file that only its owner can open. A file without a listener is replaced."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        remove_stale(path)
        # Set the mode before `bind` creates the file. A umask would apply to the whole process, and to agents started
        # meanwhile.
        os.fchmod(listener.fileno(), PRIVATE)
        listener.bind(str(path))
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        raise CannotListen(str(path), f"{error.strerror or error}") from error
    return listener


def born(path: Path) -> tuple[int, int, int]:
    """The identity of the file, to recognise it if another file takes its name."""
    there = path.lstat()
    return there.st_dev, there.st_ino, there.st_mtime_ns


def remove_own(path: Path, ours: tuple[int, int, int]) -> None:
    """Remove our socket file, but not that of a successor, which may have found no listener and taken the name."""
    with contextlib.suppress(FileNotFoundError):
        if born(path) == ours:
            path.unlink()


def remove_stale(path: Path) -> None:
    """Remove a socket file without a listener, as a killed gateway leaves it. Any other file is an error."""
    with contextlib.suppress(FileNotFoundError):
        if not stat.S_ISSOCK(path.lstat().st_mode):
            raise OSError(f"{path} is there and is no socket")
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            if probe.connect_ex(str(path)) == 0:
                raise OSError(f"{path}: somebody listens there already")
        path.unlink()


def address_of(listener: socket.socket) -> str:
    """The address as a user types it."""
    name = listener.getsockname()
    if isinstance(name, str):
        return f"unix:{name}"
    host = f"[{name[0]}]" if ":" in name[0] else name[0]
    return f"http://{host}:{name[1]}"
