"""Every limit of the bridge, in one place. They bound what agents and other clients can use up."""

from dataclasses import dataclass
from pathlib import Path

MEBIBYTE = 1024 * 1024
SERVER_NAME = "ostler"


@dataclass(frozen=True, slots=True, kw_only=True)
class BridgeSettings:
    """The settings of one bridge; all times in seconds, the limits of frames in bytes."""

    data_directory: Path | None = None
    """The socket is in `bridge/` below it, or in a private runtime directory if that path would be too long. None: in a
    private temporary directory, so that any number of bridges can run on one machine.
    """
    runtime_directory: Path | None = None
    """Where a short path can be created (XDG_RUNTIME_DIR); None: a new private temporary directory."""
    server_name: str = SERVER_NAME
    server_version: str = "0"
    frame_limit: int = 32 * MEBIBYTE
    outgoing_limit: int = 32 * MEBIBYTE
    """Bytes that may wait for one slow relay; an answer beyond that is replaced by a short error."""
    hello_deadline: float = 5.0
    unbound_limit: int = 256
    """Connections without a binding (no hello yet, or refused); the oldest is closed for a new one."""
    calls_per_binding: int = 64
    call_deadline: float = 3600.0
    page_size: int = 100
    farewell_after: float = 1.0
    """Seconds after the end of a session until its relay is told to exit; most agents end it earlier by themselves, and
    the owner may dismiss it once the agent has closed the session.
    """
    reconnect_grace: float = 30.0
    """Seconds that answers are kept for a relay that lost its connection."""
