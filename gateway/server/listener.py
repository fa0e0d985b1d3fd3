"""The listening socket, made before anything else is started: a port that is taken stops the start at once.

Rules: accepted connections inherit its patience. A peer that takes nothing for so long, or that is gone without a word
(a laptop that was closed, a cable that was pulled), is cut off by the kernel; we then hear of it like of any that left.
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
    """The address is taken or not ours."""

    def __init__(self, address: str, why: str) -> None:
        super().__init__(f"cannot listen on {address}: {why}")
        self.address = address


def connections_allowed(wanted: int) -> int:
    """How many of the configured connections fit into half of the files that we may open: agents, tools and the store
    need the other half, and must find it free while somebody opens as many connections as there may be."""
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return wanted if soft == resource.RLIM_INFINITY else min(wanted, max(LEAST_CONNECTIONS, soft // 2))


def listen(settings: GatewaySettings) -> socket.socket:
    """Where the settings say, on TCP."""
    return listen_tcp(settings.host, settings.port, patience=settings.client_patience)


def listen_tcp(host: str, port: int, *, patience: float) -> socket.socket:
    """Port 0 takes a free one. `patience`: seconds until a silent or gone peer is cut off."""
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
    """Ask idle peers whether they live, and wait so long for one that acknowledges nothing or reads nothing."""
    whole = max(1, round(seconds))
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    if sys.platform == "linux":
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE, whole)
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL, max(1, whole // KEEPALIVE_PROBES))
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT, KEEPALIVE_PROBES)
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, round(seconds * 1000))


def listen_unix(path: Path) -> socket.socket:
    """A socket file for its owner only. One that nobody listens on any more is replaced."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        remove_stale(path)
        # Of the socket, before it has a name: a umask is the whole process's, and agents that start just then have it.
        os.fchmod(listener.fileno(), PRIVATE)
        listener.bind(str(path))
        listener.listen(BACKLOG)
    except OSError as error:
        listener.close()
        raise CannotListen(str(path), f"{error.strerror or error}") from error
    return listener


def born(path: Path) -> tuple[int, int, int]:
    """Which file it is, should another one be given its name."""
    there = path.lstat()
    return there.st_dev, there.st_ino, there.st_mtime_ns


def remove_own(path: Path, ours: tuple[int, int, int]) -> None:
    """Not that of a successor, who may have found nobody listening and taken the name."""
    with contextlib.suppress(FileNotFoundError):
        if born(path) == ours:
            path.unlink()


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
