"""The location of the admin socket: in the data folder, so that a command that knows the folder finds it.

Rules: imports nothing that would slow a command down. If the path is longer than a socket address may be, the socket is
reached through a descriptor of the folder, so that its location never changes.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ADMIN_SOCKET = "admin.sock"
LONGEST = 107


def admin_socket(folder: Path) -> Path:
    """The path of the admin socket of a data folder."""
    return folder / ADMIN_SOCKET


@contextmanager
def short(path: Path) -> Iterator[str]:
    """A name for the same socket that is short enough for a socket address."""
    if len(os.fsencode(path)) <= LONGEST:
        yield str(path)
        return
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)
