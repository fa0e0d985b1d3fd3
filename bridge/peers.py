"""Who is at the other end of a unix socket, as the kernel tells it.

Rules: the uid decides whether we talk at all. A pid is never an identity; the pid and start time of a process and of
each of its ancestors are, and they are a second check beside the token, never instead of it. A process that vanished
while we looked has no ancestry and is nobody's descendant. Where the platform has no /proc the ancestry is unknown,
and the uid (with the 0700 directory) is what is left.
"""

import socket
import struct
import sys
from pathlib import Path
from typing import Final

from ostler.bridge.binding import PeerIdentity
from ostler.bridge.bindings import RelayPeer

PROC: Final = Path("/proc")
DEPTH: Final = 64

_CREDENTIALS = struct.Struct("3i")


def tells_processes() -> bool:
    return sys.platform == "linux" and (PROC / "self" / "stat").exists()


def uid_of(connection: socket.socket) -> int | None:
    credentials = _credentials(connection)
    return None if credentials is None else credentials[1]


def peer_of(connection: socket.socket) -> RelayPeer:
    """The process that connected, with its ancestors."""
    credentials = _credentials(connection)
    return RelayPeer() if credentials is None else RelayPeer(ancestry(credentials[0]))


def ancestry(pid: int) -> tuple[PeerIdentity, ...]:
    """The process and its ancestors, nearest first; what can be read of them."""
    line: list[PeerIdentity] = []
    while pid > 0 and len(line) < DEPTH:
        stat = _stat(pid)
        if stat is None:
            return tuple(line)
        parent, start_time = stat
        line.append(PeerIdentity(pid, start_time))
        pid = parent
    return tuple(line)


def _credentials(connection: socket.socket) -> tuple[int, int, int] | None:
    if sys.platform != "linux":
        return None
    raw = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    pid, uid, gid = _CREDENTIALS.unpack(raw)
    return pid, uid, gid


def _stat(pid: int) -> tuple[int, int] | None:
    """Parent pid and start time; fields 4 and 22, counted after the command, which may hold anything."""
    try:
        raw = (PROC / str(pid) / "stat").read_bytes()
    except OSError:
        return None
    fields = raw[raw.rindex(b")") + 2 :].split()
    return int(fields[1]), int(fields[19])
