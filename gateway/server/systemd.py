"""What a service manager wants: a listening socket handed in, and to be told when we are ready."""

import os
import socket
from collections.abc import Mapping

FIRST = 3


def inherited_socket(environ: Mapping[str, str]) -> socket.socket | None:
    """The socket of a socket unit, if this very process was given one."""
    if environ.get("LISTEN_PID") != str(os.getpid()) or environ.get("LISTEN_FDS", "0") == "0":
        return None
    return socket.socket(fileno=FIRST)


def notify(environ: Mapping[str, str], state: str) -> None:
    """`READY=1` or `STOPPING=1`, where somebody listens."""
    address = environ.get("NOTIFY_SOCKET")
    if not address:
        return
    name = "\0" + address[1:] if address.startswith("@") else address
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.sendto(state.encode(), name)
