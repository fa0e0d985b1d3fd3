"""The address of the gateway of a data folder, written into the folder for clients on the same machine.

Rules: the file is a hint, not a lock: a client finds out whether a gateway answers there. It is private to its owner
and replaced by rename, so that no client reads half of it. A gateway that cannot write it (the disk is full) serves
nevertheless. A client sends its key only to a listener of its own user: another user's process may have taken the port
of a gateway that ended.
"""

import logging
import os
from pathlib import Path
from urllib.parse import urlsplit

FILE = "address"
PRIVATE = 0o600
LONGEST = 4096
TABLES = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))
LISTENS = "0A"
log = logging.getLogger(__name__)


def leave_address(folder: Path, address: str) -> None:
    """Write the address for clients. A failure is only logged."""
    fresh = folder / f".{FILE}.{os.getpid()}"
    try:
        file = os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, PRIVATE)
        with os.fdopen(file, "w", encoding="utf-8") as out:
            out.write(f"{address}\n")
        fresh.replace(folder / FILE)
    except OSError as error:
        log.warning("whoever looks into %s will not find this gateway: %s", folder, error)
        fresh.unlink(missing_ok=True)


def left_address(folder: Path) -> str | None:
    """The address that the last gateway wrote; None if there is none."""
    try:
        return (folder / FILE).read_text(encoding="utf-8")[:LONGEST].strip() or None
    except (OSError, UnicodeDecodeError):
        return None


def is_ours(address: str) -> bool:
    """Whether every listener on the port of this TCP address belongs to this user, as far as the system tells. True for
    a socket file: its mode protects it."""
    port = urlsplit(address).port
    if port is None:
        return True
    owners = [uid for table in TABLES if table.exists() for uid in owners_of(table.read_text(), port)]
    return bool(owners) and set(owners) == {os.getuid()}


def owners_of(table: str, port: int) -> list[int]:
    """The uids of the listeners on this port, from a table of the kernel."""
    rows = [line.split() for line in table.splitlines()[1:]]
    return [int(row[7]) for row in rows if row[3] == LISTENS and int(row[1].rpartition(":")[2], 16) == port]
