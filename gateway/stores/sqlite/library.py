"""Checks the version of SQLite. Versions that can damage a file with several connections are refused.

The WAL-reset bug was introduced in 3.7.0 and fixed in 3.51.3: when one connection commits while another restarts the
log, a later checkpoint can leave out frames. We have a writer, readers that may recover the log, and other processes.
"""

import apsw

from ostler.gateway.model.errors import StoreUnsafe

SOUND = (3, 51, 3)


def check_library(version: str | None = None) -> None:
    """Raise `StoreUnsafe` for an affected version; None checks the loaded library."""
    found = apsw.sqlite_lib_version() if version is None else version
    if tuple(int(part) for part in found.split(".")) < SOUND:
        raise StoreUnsafe(found, ".".join(map(str, SOUND)))
