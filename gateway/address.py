"""Where the gateway of a data folder listens, left in the folder for clients on the same machine.

Rules: a hint, never a lock: whoever reads it finds out by asking whether anybody is there. For the owner only, replaced
by a rename, so that nobody reads half of it. A gateway that cannot leave one (the disk is full) serves all the same.
"""

import logging
import os
from pathlib import Path

FILE = "address"
PRIVATE = 0o600
LONGEST = 4096
log = logging.getLogger(__name__)


def leave_address(folder: Path, address: str) -> None:
    """Say it to whoever looks."""
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
    """What the last gateway said; None where there was none."""
    try:
        return (folder / FILE).read_text(encoding="utf-8")[:LONGEST].strip() or None
    except (FileNotFoundError, PermissionError, UnicodeDecodeError):
        return None
