"""Which SQLite we run on. Some versions damage a file that two connections write to: those are refused.

The WAL-reset bug came with 3.7.0 and went with 3.51.3: when one connection commits while another restarts the log, a
later checkpoint can leave frames out. We have a writer, readers that may recover the log, and other processes.
"""

import apsw

from ostler.gateway.model.errors import StoreUnsafe

SOUND = (3, 51, 3)


def check_library(version: str | None = None) -> None:
    """Raise `StoreUnsafe` for an affected version (None: of the library that is loaded)."""
    found = apsw.sqlite_lib_version() if version is None else version
    if tuple(int(part) for part in found.split(".")) < SOUND:
        raise StoreUnsafe(found, ".".join(map(str, SOUND)))
