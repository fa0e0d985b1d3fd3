"""Where the admin socket is: in the data folder, so whoever knows the folder finds it. Nothing is imported here that a
command would have to wait for.

Rules: a path longer than a socket's name may be is reached through the open folder, so that the place is always the
same.
"""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ADMIN_SOCKET = "admin.sock"
LONGEST = 107


def admin_socket(folder: Path) -> Path:
    """Its path."""
    return folder / ADMIN_SOCKET


@contextmanager
def short(path: Path) -> Iterator[str]:
    """The same place by a name that fits."""
    if len(os.fsencode(path)) <= LONGEST:
        yield str(path)
        return
    folder = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY)
    try:
        yield f"/proc/self/fd/{folder}/{path.name}"
    finally:
        os.close(folder)
