"""The socket's path: a private directory (0700), a private socket (0600), and a path that is short enough.

Rules: a symlink is never followed at the last step, and a directory of another user is never used. A lock file, held
while the bridge runs, marks the serving process. A socket file is replaced only by the holder of the lock, only when it
is a socket, and only when no process answers on it. At the end only the bridge's own files are removed.
"""

import contextlib
import fcntl
import os
import socket
import stat
import tempfile
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Final

from ostler.bridge.errors import SocketInUse, SocketRefused
from ostler.bridge.leftovers import PREFIX, remove_leftovers

LONGEST: Final = 107
NAME: Final = "bridge.sock"
LOCK: Final = "bridge.lock"
BACKLOG: Final = 1024


def fits(path: Path) -> bool:
    return len(os.fsencode(path)) <= LONGEST


@dataclass(slots=True)
class SocketPlace:
    """A listening socket and the files to remove with it."""

    listener: socket.socket
    path: Path
    _lock: int
    _inode: int
    _temporary: bool

    def close(self) -> None:
        self.listener.close()
        try:
            if _inode_of(self.path) == self._inode:
                self.path.unlink()
            if self._temporary:
                (self.path.parent / LOCK).unlink()
                self.path.parent.rmdir()
        finally:
            os.close(self._lock)


def listen(data_directory: Path | None, runtime_directory: Path | None) -> SocketPlace:
    directory, temporary = (
        (_temporary(), True) if data_directory is None else _choose(data_directory.absolute(), runtime_directory)
    )
    _claim(directory)
    path = directory / NAME
    lock = _lock(directory / LOCK, path)
    try:
        _remove_stale(path)
        listener = _bind(path)
    except BaseException:
        os.close(lock)
        raise
    return SocketPlace(listener, path, lock, path.lstat().st_ino, temporary)


def _choose(data_directory: Path, runtime_directory: Path | None) -> tuple[Path, bool]:
    """The first directory whose path fits; the last choice is temporary."""
    wanted = data_directory / "bridge"
    if fits(wanted / NAME):
        wanted.parent.mkdir(parents=True, exist_ok=True)
        return wanted, False
    if runtime_directory is not None:
        short = runtime_directory / f"ostler-{sha256(os.fsencode(wanted)).hexdigest()[:16]}"
        if fits(short / NAME):
            return short, False
    return _temporary(), True


def _temporary() -> Path:
    """A new private directory, removed with the socket."""
    # If TMPDIR is too long, use the one directory that every system has.
    parent = tempfile.gettempdir() if fits(Path(tempfile.gettempdir()) / f"{PREFIX}{'x' * 8}" / NAME) else "/tmp"  # noqa: S108 - mkdtemp makes a private, unguessable directory
    fresh = Path(tempfile.mkdtemp(prefix=PREFIX, dir=parent))
    remove_leftovers(fresh, LOCK, NAME)
    return fresh


def _claim(directory: Path) -> None:
    """Create the directory and make it private. It is opened without following a link, and the open descriptor is
    checked, so that another process cannot exchange it in between.
    """
    with contextlib.suppress(FileExistsError):
        directory.mkdir(mode=0o700)
    try:
        handle = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except OSError as error:
        raise SocketRefused(directory, "it is not a plain directory (a symlink, perhaps)") from error
    try:
        if os.fstat(handle).st_uid != os.geteuid():
            raise SocketRefused(directory, "it belongs to another user")
        os.fchmod(handle, 0o700)
    finally:
        os.close(handle)


def _lock(lock_path: Path, socket_path: Path) -> int:
    try:
        handle = os.open(lock_path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise SocketRefused(lock_path, "its lock file cannot be opened safely") from error
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(handle)
        raise SocketInUse(socket_path) from error
    return handle


def _remove_stale(path: Path) -> None:
    try:
        found = path.lstat()
    except FileNotFoundError:
        return
    if not stat.S_ISSOCK(found.st_mode):
        raise SocketRefused(path, "something that is not a socket lies there; remove it")
    # The lock shows that no bridge serves it; a process without the lock may.
    if _answers(path):
        raise SocketInUse(path)
    path.unlink()


def _answers(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.setblocking(False)
        try:
            probe.connect(os.fspath(path))
        except ConnectionRefusedError:
            return False
        except BlockingIOError:
            # Its queue is full, so a process serves it.
            return True
    return True


def _bind(path: Path) -> socket.socket:
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        listener.setblocking(False)
        listener.bind(os.fspath(path))
        # No other user can connect in between: the directory is closed to them.
        path.chmod(0o600)
        listener.listen(BACKLOG)
    except BaseException:
        listener.close()
        raise
    return listener


def _inode_of(path: Path) -> int | None:
    try:
        return path.lstat().st_ino
    except FileNotFoundError:
        return None
