"""The process at the other end of a unix socket, as the kernel reports it.

Rules: the uid decides whether a connection is accepted at all. A pid is never an identity; a process and its ancestors
are identified by pid and start time, as a second check besides the token, never instead of it. A process that exits
during the check has no ancestry and descends from no process. Where the platform has no /proc the ancestry is unknown,
and only the uid (with the 0700 directory) remains.
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
    """The process and its ancestors, nearest first, as far as they can be read."""
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
    """Parent pid and start time: fields 4 and 22, counted after the command, which may contain any characters."""
    try:
        raw = (PROC / str(pid) / "stat").read_bytes()
    except OSError:
        return None
    fields = raw[raw.rindex(b")") + 2 :].split()
    return int(fields[1]), int(fields[19])
