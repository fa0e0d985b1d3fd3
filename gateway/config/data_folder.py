"""Where everything of ours is kept: what the command line says, else `OSTLER_DATA_DIR`, else the XDG state folder.

Rule: what the system says no to there is said with a way out, by `usable`.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from ostler.gateway.model.errors import GatewayError

DATABASE = "ostler.db"
MIRRORS = "mirrors"
COMPILED = "compiled"
"""Made by the agents that use it; whoever deletes it makes their next start slower and nothing else."""


class FolderUnusable(GatewayError):
    """The data folder, or something in it, is not what it must be."""

    def __init__(self, folder: Path, path: str, why: str) -> None:
        super().__init__(
            f"{path}: {why}; check the owner and the mode of the data folder {folder} and of what is in it, or name "
            "another folder with --data-dir or OSTLER_DATA_DIR"
        )
        self.folder = folder
        self.path = path
        self.why = why


class NoHome(GatewayError):
    """A user without a home, as in many containers; and what we were to find there."""

    def __init__(self, wanted: str) -> None:
        super().__init__(
            f"there is no home directory to find {wanted} in: set HOME; where everything is kept can also be said with "
            "OSTLER_DATA_DIR or --data-dir"
        )
        self.wanted = wanted


def data_folder(given: str | None, environ: Mapping[str, str]) -> Path:
    """The folder, whether it is there or not."""
    named = given or environ.get("OSTLER_DATA_DIR")
    if named:
        return spelled_out(named)
    state = environ.get("XDG_STATE_HOME", "")
    # The standard says that a relative path there is to be ignored.
    root = Path(state) if state.startswith("/") else spelled_out(environ.get("HOME") or "~") / ".local" / "state"
    return root / "ostler"


def spelled_out(path: str) -> Path:
    """A path as a person types it, absolute."""
    try:
        return Path(path).expanduser().absolute()
    except RuntimeError as error:
        raise NoHome(path) from error


@contextmanager
def usable(folder: Path) -> Iterator[None]:
    """Around what is made or read in the data folder."""
    try:
        yield
    except OSError as error:
        raise FolderUnusable(folder, str(error.filename or folder), error.strerror or str(error)) from error
