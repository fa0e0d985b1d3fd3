"""Where everything of ours is kept: what the command line says, else `OSTLER_DATA_DIR`, else the XDG state folder."""

from collections.abc import Mapping
from pathlib import Path

DATABASE = "ostler.db"
MIRRORS = "mirrors"


def data_folder(given: str | None, environ: Mapping[str, str]) -> Path:
    """The folder, whether it is there or not."""
    if given:
        return Path(given).expanduser().absolute()
    if environ.get("OSTLER_DATA_DIR"):
        return Path(environ["OSTLER_DATA_DIR"]).expanduser().absolute()
    state = environ.get("XDG_STATE_HOME", "")
    # The standard says that a relative path there is to be ignored.
    root = Path(state) if state.startswith("/") else Path(environ.get("HOME") or Path.home()) / ".local" / "state"
    return root / "ostler"
