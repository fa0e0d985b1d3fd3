"""The data folder: what the command line says, else `OSTLER_DATA_DIR`, else the XDG state folder.

Rule: code that makes or reads something there does it inside `usable`, so that the error names a way out.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from ostler.gateway.model.errors import GatewayError

DATABASE = "ostler.db"
MIRRORS = "mirrors"
COMPILED = "compiled"
"""Compiled code of the agents, which they create themselves. Deleting it only makes their next start slower."""


class FolderUnusable(GatewayError):
    """The data folder, or something in it, cannot be used."""

    def __init__(self, folder: Path, path: str, why: str) -> None:
        super().__init__(
            f"{path}: {why}; check the owner and the mode of the data folder {folder} and of what is in it, or name "
            "another folder with --data-dir or OSTLER_DATA_DIR"
        )
        self.folder = folder
        self.path = path
        self.why = why


class NoHome(GatewayError):
    """The user has no home directory, as in many containers; `wanted` is the path that needed one."""

    def __init__(self, wanted: str) -> None:
        super().__init__(
            f"there is no home directory to find {wanted} in: set HOME; where everything is kept can also be said with "
            "OSTLER_DATA_DIR or --data-dir"
        )
        self.wanted = wanted


def data_folder(given: str | None, environ: Mapping[str, str]) -> Path:
    """Return the folder; it need not exist."""
    named = given or environ.get("OSTLER_DATA_DIR")
    if named:
        return spelled_out(named)
    state = environ.get("XDG_STATE_HOME", "")
    # The XDG standard says that a relative path here is ignored.
    root = Path(state) if state.startswith("/") else spelled_out(environ.get("HOME") or "~") / ".local" / "state"
    return root / "ostler"


def spelled_out(path: str) -> Path:
    """Return a path as a person types it (`~`, relative) in absolute form. Raises `NoHome`."""
    try:
        return Path(path).expanduser().absolute()
    except RuntimeError as error:
        raise NoHome(path) from error


@contextmanager
def usable(folder: Path) -> Iterator[None]:
    """Translate an `OSError` raised in the block into `FolderUnusable`."""
    try:
        yield
    except OSError as error:
        raise FolderUnusable(folder, str(error.filename or folder), error.strerror or str(error)) from error
