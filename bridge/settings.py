"""Every limit of the bridge, in one place. All of them bound what comes from outside."""

from dataclasses import dataclass
from pathlib import Path

MEBIBYTE = 1024 * 1024
SERVER_NAME = "ostler"


@dataclass(frozen=True, slots=True, kw_only=True)
class BridgeSettings:
    data_directory: Path | None = None
    """The socket lives in `bridge/` below it, or in a private runtime directory when that path would be too long. None:
    in a private temporary directory, so that any number of bridges may run beside each other."""
    runtime_directory: Path | None = None
    """Where a short path can be made (XDG_RUNTIME_DIR); without it a fresh private temporary directory is made."""
    server_name: str = SERVER_NAME
    server_version: str = "0"
    frame_limit: int = 32 * MEBIBYTE
    outgoing_limit: int = 32 * MEBIBYTE
    """Bytes that may wait for one slow relay; an answer beyond is replaced by a short error."""
    hello_deadline: float = 5.0
    unbound_limit: int = 256
    """Connections without a binding (no hello yet, or refused); the oldest makes room for the next."""
    calls_per_binding: int = 64
    call_deadline: float = 3600.0
    page_size: int = 100
    farewell_after: float = 1.0
    """How long after the end of a session its relay is sent home at the latest; most agents end it themselves before
    that, and its owner may dismiss it once the agent has closed the session."""
    reconnect_grace: float = 30.0
    """How long answers wait for a relay that lost its connection."""
