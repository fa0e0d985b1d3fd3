"""systemd's protocols: a listening socket that it passes in, and the notification of readiness."""

import os
import socket
from collections.abc import Mapping

FIRST = 3


def inherited_socket(environ: Mapping[str, str]) -> socket.socket | None:
    """The socket of a socket unit, if it was passed to this very process."""
    if environ.get("LISTEN_PID") != str(os.getpid()) or environ.get("LISTEN_FDS", "0") == "0":
        return None
    return socket.socket(fileno=FIRST)


def notify(environ: Mapping[str, str], state: str) -> None:
    """Send `READY=1` or `STOPPING=1` to the service manager, if there is one."""
    address = environ.get("NOTIFY_SOCKET")
    if not address:
        return
    name = "\0" + address[1:] if address.startswith("@") else address
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.sendto(state.encode(), name)
